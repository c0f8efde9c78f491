/* SPDX-License-Identifier: Apache-2.0 */
/* Help about a verb as a man page. See help.h. */
#include "help.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void help_man_text(const char *text)
{
    if (*text == '.' || *text == '\'')
        printf("\\&"); /* else a request */
    for (const char *c = text; *c; c++)
        if (*c == '-' || *c == '\\')
            printf("%s", *c == '-' ? "\\-" : "\\e");
        else if (*c == '\'')
            printf("\\(aq");
        else
            putchar(*c);
}

/* One line of the source for each line of the text: only there can a line begin with a request. */
static void print_lines(const char *text)
{
    while (*text) {
        char line[512];
        int length = (int)strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", length, text);
        help_man_text(line);
        putchar('\n');
        text += length + (text[length] == '\n');
    }
}

static void print_upper(const char *text)
{
    for (; *text; text++)
        putchar(toupper((unsigned char)*text));
}

void help_man_begin(const char *verb, const char *summary)
{
    const char *dash = *verb ? "\\-" : "";
    printf(".TH RINGATTN%s", dash);
    print_upper(verb);
    printf(" 1 \"\" \"ringattn %s\"\n.nh\n.ad l\n.SH NAME\nringattn%s%s \\- ", ra_version(), dash, verb);
    help_man_text(summary);
    putchar('\n');
}

void help_man_section(const char *name)
{
    printf(".SH \"");
    print_upper(name);
    printf("\"\n");
}

void help_man_lines(const char *text)
{
    printf(".nf\n");
    print_lines(text);
    printf(".fi\n");
}

static void print_name(const arg_option *option)
{
    if (option->letter)
        printf("\\fB\\-%c\\fR, ", option->letter);
    printf("\\fB\\-\\-");
    help_man_text(option->name);
    printf("\\fR");
    if (option->metavar) {
        printf(" \\fI");
        help_man_text(option->metavar);
        printf("\\fR");
    }
}

static void print_item(const arg_option *option)
{
    if (!option->help)
        return;
    printf(".TP\n");
    print_name(option);
    putchar('\n');
    print_lines(option->help);
}

static void print_synopsis(const arg_command *command)
{
    printf("\\fBringattn %s\\fR", command->verb);
    for (int i = 0; i < command->option_count; i++)
        if (command->options[i].required) {
            putchar(' ');
            print_name(&command->options[i]);
        }
    if (command->operands) {
        printf(" \\fI");
        help_man_text(command->operands);
        printf("\\fR");
    }
    printf(" [\\fIoptions\\fR]\n");
}

static void print_options(const arg_command *command)
{
    for (int i = 0; i < command->topic_count; i++) {
        printf(".TP\n\\fB%s\\fR\n", command->topics[i].name);
        print_lines(command->topics[i].help);
    }
    for (int i = 0; i < command->option_count; i++)
        print_item(&command->options[i]);
    print_item(&HELP_OPTION);
}

/* A verb of two words is a part of the first word's page: a section of its own. */
static void print_part(const arg_command *command)
{
    char title[64];
    snprintf(title, sizeof title, "ringattn %s", command->verb);
    help_man_section(title);
    print_lines(command->summary);
    print_options(command);
    printf(".PP\nExample:\n.PP\n");
    help_man_lines(command->example);
}

void help_man(const arg_command *command)
{
    if (strchr(command->verb, ' ')) {
        print_part(command);
        return;
    }
    help_man_section("SYNOPSIS");
    print_synopsis(command);
    help_man_section("DESCRIPTION");
    print_lines(command->summary);
    help_man_section("OPTIONS");
    print_options(command);
    if (command->notes) {
        help_man_section("NOTES");
        print_lines(command->notes);
    }
    help_man_section("EXAMPLE");
    help_man_lines(command->example);
}

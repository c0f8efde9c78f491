/* SPDX-License-Identifier: Apache-2.0 */
/* Help about a verb as text for a terminal, and the choice between the forms of help. See help.h. */
#include "help.h"

#include <stdio.h>
#include <string.h>

const arg_option HELP_OPTION = {.name = "help", .kind = ARG_FLAG, .help = "print this text"};

static help_form current_form = HELP_TEXT;

void help_set_form(help_form form)
{
    current_form = form;
}

help_form help_current_form(void)
{
    return current_form;
}

static int option_width(const arg_option *option)
{
    return 2 + (int)strlen(option->name) + (option->letter ? 4 : 0) +
           (option->metavar ? 1 + (int)strlen(option->metavar) : 0);
}

/* The right column: further lines begin below the first. */
static void print_right(const char *text, int column)
{
    for (const char *c = text; *c; c++) {
        putchar(*c);
        if (*c == '\n')
            printf("%*s", column, "");
    }
    putchar('\n');
}

static void print_option(const arg_option *option, int width)
{
    if (!option->help)
        return;
    printf("  ");
    if (option->letter)
        printf("-%c, ", option->letter);
    printf("--%s%s%s%*s  ", option->name, option->metavar ? " " : "", option->metavar ? option->metavar : "",
           width - option_width(option), "");
    print_right(option->help, width + 4);
}

static void print_topics(const arg_command *command)
{
    int width = 0;
    for (int i = 0; i < command->topic_count; i++) {
        int length = (int)strlen(command->topics[i].name);
        width = length > width ? length : width;
    }
    for (int i = 0; i < command->topic_count; i++) {
        printf("  %-*s  ", width, command->topics[i].name);
        print_right(command->topics[i].help, width + 4);
    }
    if (command->topic_count)
        putchar('\n');
}

static void print_text(const arg_command *command)
{
    int width = option_width(&HELP_OPTION);
    bool optional = false;
    printf("usage: ringattn %s", command->verb);
    for (int i = 0; i < command->option_count; i++) {
        const arg_option *option = &command->options[i];
        width = option_width(option) > width ? option_width(option) : width;
        optional |= !option->required;
        if (option->required)
            printf(" --%s %s", option->name, option->metavar);
    }
    if (command->operands)
        printf(" %s", command->operands);
    printf("%s\n\n%s\n\n", optional ? " [options]" : "", command->summary);
    print_topics(command);
    for (int i = 0; i < command->option_count; i++)
        print_option(&command->options[i], width);
    print_option(&HELP_OPTION, width);
    if (command->notes)
        printf("\n%s\n", command->notes);
    printf("\nexample: %s\n", command->example);
}

void help_print(const arg_command *command)
{
    switch (current_form) {
    case HELP_TEXT: print_text(command); break;
    case HELP_MAN: help_man(command); break;
    case HELP_WORDS: help_words(command); break;
    }
}

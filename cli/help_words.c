/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Help for the completion scripts of shells: one word a line, with tabs between
 *     the word      --pattern, or a topic
 *     its value     nothing: it takes none; FILE: a path; -: anything else; else the values to choose from, with spaces
 *     its help      the first line
 * See help.h.
 */
#include "help.h"

#include <stdio.h>
#include <string.h>

void help_word(const char *word, const char *value, const char *help)
{
    printf("%s\t%s\t%.*s\n", word, value, (int)strcspn(help, "\n"), help);
}

static void value_of(const arg_option *option, char *text, size_t size)
{
    const char *const *choices = arg_choices(option);
    snprintf(text, size, "%s",
             option->kind == ARG_FLAG                                  ? ""
             : option->metavar && strcmp(option->metavar, "FILE") == 0 ? "FILE"
             : choices                                                 ? ""
                                                                       : "-");
    for (int i = 0; choices && choices[i]; i++)
        snprintf(text + strlen(text), size - strlen(text), "%s%s", i ? " " : "", choices[i]);
}

static void print_option(const arg_option *option)
{
    char name[64], value[256];
    if (!option->help)
        return;
    snprintf(name, sizeof name, "--%s", option->name);
    value_of(option, value, sizeof value);
    help_word(name, value, option->help);
}

void help_words(const arg_command *command)
{
    for (int i = 0; i < command->topic_count; i++)
        help_word(command->topics[i].name, "", command->topics[i].help);
    for (int i = 0; i < command->option_count; i++)
        print_option(&command->options[i]);
    print_option(&HELP_OPTION);
}

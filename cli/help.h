/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Help about a verb, from its table of options (arg_table.h), in the form that was asked for: text for a terminal, a
 * man page, or lines for a shell that completes what is typed.
 */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "arg_table.h"

typedef enum help_form {
    HELP_TEXT, /* what --help prints */
    HELP_MAN,  /* a man page in roff */
    HELP_WORDS /* one word a line, with tabs: the word, what may follow it, the first line of its help */
} help_form;

/* The form of every help that is printed from now on; HELP_TEXT at first. */
void help_set_form(help_form form);
help_form help_current_form(void);

/* Every verb takes it. */
extern const arg_option HELP_OPTION;

/* Help about a verb in the current form. */
void help_print(const arg_command *command);

/* ---- The forms, for the functions above and for the help about the command as a whole ---------------------------- */

void help_man(const arg_command *command);
void help_words(const arg_command *command);

/* A man page up to its first section: .TH and NAME. `verb` may be "". */
void help_man_begin(const char *verb, const char *summary);

/* A section of a man page; one of paragraphs that keep their lines; text in a line, with what roff would read marked.
 */
void help_man_section(const char *name);
void help_man_lines(const char *text);
void help_man_text(const char *text);

/* One word of HELP_WORDS. */
void help_word(const char *word, const char *value, const char *help);

#endif

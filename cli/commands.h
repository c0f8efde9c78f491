/* SPDX-License-Identifier: Apache-2.0 */
/* One function a verb: argv[0] is the verb, the result is the exit code. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

int cmd_advise(int argc, char **argv);
int cmd_attend(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_gradient(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_verify(int argc, char **argv);

#endif

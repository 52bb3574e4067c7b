/* SPDX-License-Identifier: Apache-2.0 */
/* How errors are formatted, their remedies, and which ones another process prints. */
#include "lib/error.h"
#include "tap.h"

#include <errno.h>

static void test_errors(void)
{
    struct error err;
    char long_text[2000];

    is_int(error_set(&err, "%s=%d", "a", 1), -1, "error_set returns -1");
    is(err.text, "a=1", "and formats");
    is_int(error_set(NULL, "nobody listens"), -1, "nobody need listen");
    is_int(error_set_errno(&err, ENOENT, "%s cannot be read", "f"), -1, "with errno");
    is(err.text, "f cannot be read: No such file or directory; check the path",
       "the reason and what to do follow");
    is_int(error_prefix(&err, "line %d", 3), -1, "error_prefix returns -1");
    is(err.text, "line 3: f cannot be read: No such file or directory; check the path",
       "the prefix is before");
    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    error_set(&err, "%s", long_text);
    is_int((long long)strlen(err.text), (long long)sizeof(err.text) - 1, "long text is cut");
    is(err.text + strlen(err.text) - 4, "x...", "and shows it");
    error_prefix(&err, "before");
    ok(strncmp(err.text, "before: xxx", 11) == 0, "a prefix before cut text");
    error_append(&err, "; %s", "do this");
    is_int((long long)strlen(err.text), (long long)sizeof(err.text) - 1, "it is cut for a remedy");
    is(err.text + strlen(err.text) - 11, "xx; do this", "  which is complete");
}

/* General remedies, which give way to specific ones. */
static void test_remedies(void)
{
    struct error err;
    char long_text[1020];

    error_set_errno(&err, ENOSPC, "cannot write f");
    error_append(&err, "; use %s", "g");
    is(err.text, "cannot write f: No space left on device; use g", "a specific remedy is better");
    error_append(&err, "; or h");
    is(err.text, "cannot write f: No space left on device; use g; or h", "and is kept");
    error_set_code_errno(&err, ERROR_USAGE, EISDIR, "cannot read %s", "f");
    error_append(&err, " (%d bytes)", 5);
    error_prefix(&err, "--input");
    is(err.text, "--input: cannot read f: Is a directory (5 bytes); name a file instead",
       "what is not a remedy goes before it");
    is_int(err.code, ERROR_USAGE, "the code is kept");
    error_append(&err, "; use f/g");
    is(err.text, "--input: cannot read f: Is a directory (5 bytes); use f/g",
       "after a prefix it can be replaced as well");
    error_set_errno(&err, EDOM, "f");
    ok(!strchr(err.text, ';'), "no remedy for an errno value that has none");
    error_set(&err, "%s: out of memory", "f");
    is(err.text,
       "f: out of memory; raise the memory limit of the job (sbatch --mem), or run fewer tasks per "
       "node",
       "a failed allocation has one");
    error_append(&err, "; use more buckets");
    is(err.text, "f: out of memory; use more buckets", "  which can be replaced");
    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    error_set_errno(&err, ENOENT, "%s", long_text);
    error_append(&err, "; y");
    is(err.text + strlen(err.text) - 5, "x:; y", "a text without room for the general one");
    error_set(&err, "line 3 of f is damaged");
    error_advise(&err, "copy it again");
    is(err.text, "line 3 of f is damaged; copy it again", "a reader of files adds a remedy");
    error_advise(&err, "download it");
    is(err.text, "line 3 of f is damaged; copy it again", "  if there is none");
    error_append(&err, "; use g");
    is(err.text, "line 3 of f is damaged; use g", "  and a specific one replaces it");
    err.text[0] = '\0';
    error_append(&err, "; z");
    is(err.text, "; z", "a text that was emptied");
}

static void test_silence(void)
{
    struct error err;

    error_set_code(&err, ERROR_USAGE, "f");
    ok(!err.quiet, "this process prints an error");
    is_int(error_silence(&err), -1, "error_silence returns -1");
    error_prefix(&err, "--input");
    error_append(&err, "; use g");
    ok(err.quiet, "unless another one does, also with a prefix and a remedy");
    is_int(err.code, ERROR_USAGE, "the code is kept");
    is(err.text, "--input: f; use g", "and so is the text");
    error_set(&err, "g");
    ok(!err.quiet, "the next error is printed");
    is_int(error_silence(NULL), -1, "nobody need listen");
}

int main(void)
{
    test_errors();
    test_remedies();
    test_silence();
    return done_testing();
}

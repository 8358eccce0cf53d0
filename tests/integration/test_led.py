# SPDX-License-Identifier: Apache-2.0
"""What pointers of the C library lead to: files, directories, lines, descriptors, names.

The program prints what it passed and got, in soscope's words.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets.accounts import built

PROGRAM = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>
static char told[1 << 14];
static int used;
#define TELL(...) (used += snprintf(told + used, sizeof(told) - used, __VA_ARGS__))
int main(int argc, char **argv)
{
    struct stat s;
    struct pollfd fds[10] = {{0}};
    struct utsname names;
    struct dirent *entry;
    char *line = NULL, *made;
    size_t size = 0;
    int pipes[2];
    (void)argc;
    if (!stat(argv[1], &s))
        TELL("{st_mode=S_IFDIR|S_ISVTX|0%o, st_size=%ld, ...}\n", s.st_mode & 0777,
             (long)s.st_size);
    if (!fstat(0, &s))
        TELL("{st_mode=S_IFCHR|0%o, st_size=0, ...}\n", s.st_mode & 0777);
    DIR *folder = opendir(argv[1]);
    while ((entry = readdir(folder)))
        TELL("{d_type=%s, d_name=\"%s\", ...}\n", entry->d_type == DT_DIR ? "DT_DIR" : "DT_REG",
             entry->d_name);
    FILE *file = fopen(argv[2], "r");
    while (getline(&line, &size, file) >= 0)
        TELL("[\"%.*s\\n\"]\n", (int)strlen(line) - 1, line);
    if (asprintf(&made, "%d", argc * 7) > 0)
        TELL("[\"%s\"]\n", made);
    if (pipe(pipes))
        return 1;
    fds[0].fd = pipes[0], fds[0].events = POLLIN | POLLPRI;
    fds[1].fd = pipes[1], fds[1].events = POLLOUT;
    poll(fds, 2, 0);
    TELL("[{fd=%d, events=POLLIN|POLLPRI, ...}, {fd=%d, events=POLLOUT, ...}]\n", pipes[0],
         pipes[1]);
    for (int i = 0; i < 10; i++)
        fds[i].fd = -i, fds[i].events = 0;
    poll(fds, 10, 0);
    TELL("[");
    for (int i = 0; i < 8; i++)
        TELL("{fd=%d, events=0, ...}, ", -i);
    TELL("...]\n");
    poll(NULL, 0, 0);
    TELL("nil\n");
    uname(&names);
    TELL("{sysname=\"%s\", nodename=\"%s\", release=\"%s\", machine=\"%s\", ...}\n", names.sysname,
         names.nodename, names.release, names.machine);
    close(socket(AF_INET, SOCK_DGRAM, 17));
    TELL("IPPROTO_UDP\n");
    close(socket(AF_UNIX, SOCK_DGRAM, 0));
    TELL("SOCK_DGRAM, 0\n");
    struct iovec parts[2] = {{told, 3}, {NULL, 0}};
    TELL("[{iov_base=%p, iov_len=3}, {iov_base=nil, iov_len=0}], 2) = -1 EBADF", (void *)told);
    TELL(" (Bad file descriptor)\n");
    writev(-1, parts, 2);
    nl_langinfo(CODESET);
    TELL("CODESET\n");
    nl_langinfo(MON_3);
    TELL("MON_3\n");
    write(1, told, used);
    return 0;
}
"""
FUNCTIONS = (
    "stat,fstat,readdir,getline,__getdelim,asprintf,__asprintf_chk,poll,uname,socket,writev,"
    "nl_langinfo"
)


def test_what_pointers_lead_to_is_what_the_program_says(tmp_path: Path) -> None:
    (folder := tmp_path / "folder").mkdir()
    folder.chmod(0o1750)
    for name in ("a", "with space", "n" * 255):
        (folder / name).touch()
    (text := tmp_path / "text").write_text("one\ntwo words\n")
    out = tmp_path / "out"
    words = [*SOSCOPE, "-q", "-s", "300", "--from", "MAIN", "-e", FUNCTIONS, "-o", str(out), "--"]
    done = run([*words, built("led.c", PROGRAM), str(folder), str(text)])
    assert done.returncode == 0, done.stderr
    shown = [line for line in out.read_text().splitlines() if not line.startswith("+++")]
    # the end of the folder, and that of the file
    shown = [
        line for line in shown if not re.search(r"(readdir.*= nil|get(line|delim).*= -1)$", line)
    ]
    told = done.stdout.splitlines()
    assert len(told) == len(shown)
    assert [(line, fact) for line, fact in zip(shown, told, strict=True) if fact not in line] == []

# SPDX-License-Identifier: Apache-2.0
"""Real programs that must do under soscope what they do alone, and what they work on."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

# The same world for both runs: nothing of the machine, the day or the user in any output.
ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "HOME": ".",
    "PAGER": "cat",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "2001-02-03T04:05:06Z",
    "GIT_COMMITTER_NAME": "C",
    "GIT_COMMITTER_EMAIL": "c@example.org",
    "GIT_COMMITTER_DATE": "2001-02-03T04:05:06Z",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "DEBUGINFOD_URLS": "",
}
# Times and inode numbers of files lie in here.
DIFFERS = {"index"}

BASH = r"""
trap 'echo leaving' EXIT
count() { local n=0; while read -r _; do n=$((n + 1)); done; echo "$n"; }
(echo one; exit 3) || echo "sub $?"
count < <(seq 100)
printf '%s\n' c b a | sort | tr a-z A-Z
for i in {1..20}; do x=$(echo "$i" | sed s/1/one/); done; echo "$x"
(sleep 5 & kill $!; wait $!) 2>/dev/null; echo "killed $?"
cat <<< "${BASH_VERSINFO[0]}"
exec 3>made; echo text >&3; exec 3>&-
[[ $(cat made) =~ ^te ]] && echo "matched ${BASH_REMATCH[0]}"
exit 3
"""
PERL = r"""
use strict; use warnings;
my %count; $count{lc $_}++ for map { split /\W+/ } <STDIN>;
print join(",", map { "$_=$count{$_}" } grep { length } sort keys %count), "\n";
eval { die { code => 7 } }; print "died $@->{code}\n";
local $SIG{ALRM} = sub { die "alarm\n" };
eval { alarm 1; select undef, undef, undef, 5; }; print "got $@";
my $pid = fork // die; if (!$pid) { exit 9 } waitpid $pid, 0; print $? >> 8, "\n";
print `echo from a shell`;
print sprintf("%.3f %s\n", sqrt(2), join "", reverse split //, "reversed");
exit 5;
"""
NUMPY = r"""
import numpy as np
rng = np.random.default_rng(5)
a = rng.random((120, 120))
print(round(float(np.linalg.det(a @ np.linalg.inv(a))), 6), a.sum().round(6))
print(np.fft.fft(np.arange(64.0)).real.round(6)[:4], np.sort(rng.integers(0, 999, 1000))[:5])
try:
    np.ones(3) + np.ones(4)
except ValueError as error:
    print(error)
"""
PYTHON = r"""
import ctypes, json, sqlite3, ssl, subprocess, sys, threading, zlib
print(ssl.OPENSSL_VERSION[:7], zlib.crc32(b"x" * 99999))
print(len(ssl.create_default_context().get_ciphers()) > 3)
db = sqlite3.connect(":memory:"); db.execute("create table t(a, b)")
db.executemany("insert into t values(?, ?)", ((i, str(i % 7)) for i in range(2000)))
print(db.execute("select b, sum(a) from t group by b order by b").fetchall())
libc = ctypes.CDLL(None); order = []
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
numbers = (ctypes.c_int * 9)(5, 2, 8, 1, 9, 3, 7, 4, 6)
libc.qsort(numbers, 9, 4, compare(lambda a, b: a[0] - b[0])); print(list(numbers))
print(subprocess.run(["sh", "-c", "echo $0; exit 6"], capture_output=True).returncode)
sums = [0] * 4
def work(n): sums[n] = sum(json.loads(json.dumps(list(range(500))))) + n
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]; print(sums)
try: ctypes.CDLL("libnowhere.so")
except OSError as error: print(error)
sys.stderr.write("to stderr\n"); sys.exit(11)
"""
RUBY = r"""
require 'continuation'
fiber = Fiber.new { |x| loop { x = Fiber.yield(x * 2) } }
puts (1..200).map { |i| fiber.resume(i) }.sum
continuation = nil; times = 0
callcc { |c| continuation = c }
times += 1; continuation.call if times < 20; puts times
100.times { |i| begin; raise ArgumentError, i.to_s; rescue => e; times += e.message.to_i; end }
puts times
threads = 4.times.map { |i| Thread.new { (1..2000).inject(i) { |a, b| (a * 31 + b) % 1000003 } } }
puts threads.map(&:value).inspect
puts `echo from a shell`, $?.exitstatus
trap('USR1') { puts 'signal' }; Process.kill('USR1', $$); sleep 0.05
pid = fork { exit 7 }; Process.wait(pid); puts $?.exitstatus
puts catch(:done) { 10.times { |i| throw :done, i if i == 4 } }
exit 4
"""
NODE = r"""
const m = {}; for (let i = 0; i < 2e5; i++) m['k' + i % 97] = (m['k' + i % 97] || 0) + i;
console.log(Object.keys(m).length, m.k5);
console.log(require('crypto').createHash('sha256').update('x').digest('hex'));
try { null.x } catch (e) { console.log(e.constructor.name) }
const { execFileSync } = require('child_process');
console.log(execFileSync('echo', ['from a child']).toString().trim());
const fs = require('fs'); fs.writeFileSync('made', 'text');
console.log(fs.readFileSync('made', 'utf8'));
const zlib = require('zlib');
console.log(zlib.inflateSync(zlib.deflateSync(Buffer.alloc(99999))).length);
new Promise((done) => setTimeout(done, 20)).then(() => { console.log('later'); process.exit(5); });
"""
SQL = """
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
insert into t select i, 'row ' || (i * 7919 % 3001), i / 7.0 from n;
create index tb on t(b);
select count(*), sum(c), min(b), max(b) from t where b like 'row 1%';
select b, c from t order by b desc limit 5;
begin; delete from t where a % 2; rollback; select count(*) from t;
select nonsense from t;
"""
JAVA = r"""
import java.util.*;
public class Hello {
    public static void main(String[] args) throws Exception {
        Map<String, Integer> map = new TreeMap<>();
        for (int i = 0; i < 100000; i++) map.merge("k" + i % 97, i % 7, Integer::sum);
        long[] sums = new long[4];
        Thread[] threads = new Thread[4];
        for (int i = 0; i < 4; i++) {
            final int n = i;
            threads[i] = new Thread(() -> { for (int k = 0; k < 200000; k++) sums[n] += k ^ n; });
            threads[i].start();
        }
        for (Thread thread : threads) thread.join();
        int caught = 0; // a null pointer is a SIGSEGV that the machine handles
        for (int i = 0; i < 100000; i++)
            try { Object o = i % 2 == 0 ? null : "x"; caught += o.hashCode() & 1; }
            catch (NullPointerException e) { caught += 2; }
        System.out.println(map.size() + " " + Arrays.toString(sums) + " " + caught);
        System.exit(3);
    }
}
"""
C = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }
int main(int argc, char **argv) { qsort(argv, argc, sizeof *argv, compare); puts(*argv); return 2; }
"""
CXX = """
#include <iostream>
#include <map>
#include <string>
int main() { std::map<std::string, int> m; m["a"] = 1; for (auto &p : m) std::cout << p.first; }
"""
MAKEFILE = """
all: one two; @echo all made; exit 0
one two: %: in.txt; @(echo $@; sort $< | head -3) >$@; cat $@
fail: one; @sh -c 'exit 3'
"""
GDB = [
    "-batch",
    "-nx",
    "-ex",
    "break f8",
    "-ex",
    "run",
    "-ex",
    "bt",
    "-ex",
    "finish",
]
# Quiet, without a terminal and without anybody's settings.
VIM = ["-u", "NONE", "-i", "NONE", "-n", "-es", "-c", "g/7$/s/line/LINE/", "-c", "wq"]
TMUX = ["-S", "sock", "-f", "/dev/null", "new-session", "-d", "-x", "80", "sleep 60", ";"]
TMUX += ["set-buffer", "kept", ";", "show-buffer", ";", "kill-server"]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f x\n"


class Program(NamedTuple):
    """A program to run: in a folder that make_world has filled."""

    name: str
    command: list[str]
    stdin: str = ""
    always: bool = False  # in the ordinary run, too
    follow: bool = False


def _python() -> str:
    """Name an interpreter that has numpy: that of the tests."""
    return sys.executable


def table() -> list[Program]:
    """Return all programs."""
    words = "The quick brown fox, the lazy dog.\n" * 20
    return [
        Program("ls", ["ls", "-laR", "--time-style=+", "tree"], always=True),
        Program("bash", ["bash", "-c", BASH], always=True),
        Program("bash-followed", ["bash", "-c", BASH], follow=True),
        Program("git", ["git", "-C", "repo", "log", "--stat", "-p"], always=True),
        Program("git-grep", ["git", "-C", "repo", "grep", "-c", "xxx"]),
        Program("git-commit", ["git", "-C", "repo", "commit", "-am", "again"], follow=True),
        Program("perl", ["perl", "-e", PERL], words, always=True),
        Program("python-numpy", [_python(), "-c", NUMPY], always=True),
        Program("python", [_python(), "-c", PYTHON]),
        Program("python-system", ["/usr/bin/python3", "-c", PYTHON]),
        Program("ruby", ["ruby", "-W0", "-e", RUBY], always=True),
        Program("node", ["node", "-e", NODE], always=True),
        Program("java", ["java", "-Xshare:auto", "Hello.java"]),
        Program("sqlite3", ["sqlite3", ":memory:"], SQL, always=True),
        Program("gcc", ["gcc", "-O2", "-g", "-c", "in.c", "-o", "in.o"], always=True),
        Program("g++-followed", ["g++", "-O1", "in.cc", "-o", "made"], follow=True),
        Program("clang", ["clang", "-O2", "-c", "in.c", "-o", "in.o"]),
        Program("ld", ["ld", "-r", "-o", "made.o", "in.given.o"]),
        Program("objdump", ["objdump", "-d", "in.given.o"]),
        Program("tar", ["tar", "-cvf", "made.tar", "--sort=name", "tree"], always=True),
        Program("tar-xz", ["tar", "-cJf", "made.tar.xz", "--sort=name", "tree"], follow=True),
        Program("sort", ["sort", "--parallel=4", "-S", "1M", "-o", "made", "big.txt"], always=True),
        Program("gdb", ["gdb", *GDB, "./calls"], always=True),
        Program("make", ["make", "-s", "one", "two", "all", "fail"], follow=True),
        Program("tclsh", ["tclsh"], "puts [expr {2 ** 70}]; foreach x {c a b} {puts $x}; exit 6"),
        Program("openssl", ["openssl", "dgst", "-sha512", "big.txt"]),
        Program(
            "openssl-enc",
            [
                "openssl",
                "enc",
                "-aes-256-cbc",
                "-pbkdf2",
                "-nosalt",
                "-k",
                "x",
                "-in",
                "big.txt",
                "-out",
                "made",
            ],
        ),
        Program("xz", ["xz", "-k", "-T2", "big.txt"]),
        Program("gzip", ["gzip", "-9", "-n", "-k", "-v", "big.txt"]),
        Program("bzip2", ["bzip2", "-k", "-v", "big.txt"]),
        Program("find", ["find", "tree", "-name", "*3*", "-exec", "wc", "-c", "{}", ";"]),
        Program(
            "awk", ["awk", '{ s += length($0); n[$1]++ } END { print s, n["line"] }', "big.txt"]
        ),
        Program("sed", ["sed", "-n", "s/line \\([0-9]*\\)7/\\1/p", "big.txt"]),
        Program("grep", ["grep", "-c", "-E", "(1|2)+3$", "big.txt", "in.txt", "nowhere"]),
        Program("diff", ["diff", "-u", "in.txt", "other.txt"]),
        Program("dpkg", ["dpkg", "-l"]),
        Program("apt-config", ["apt-config", "dump"]),
        Program("bc", ["bc", "-lq"], "scale=50; 4*a(1); 2^200; s(1)\n"),
        Program("jq", ["jq", "[.[] | select(.n % 3 == 0) | .n] | add", "in.json"]),
        Program("xargs", ["xargs", "-n", "3", "-P", "1", "echo"], words, follow=True),
        Program("vim", ["vim", *VIM, "in.txt"]),
        Program("ssh-keygen", ["ssh-keygen", "-l", "-v", "-f", "key.pub"]),
        # of its lists it would make an index, with a hundred million calls
        Program("apt-cache", ["apt-cache", "-o", "Dir::State::lists=tree", "policy", "libc6"]),
        Program("tmux", ["tmux", *TMUX]),
        # valgrind runs a program that soscope cannot see into, and must not disturb
        Program("valgrind", ["valgrind", "-q", "--error-exitcode=9", "sort", "in.txt"]),
        Program("valgrind-followed", ["valgrind", "-q", "sort", "in.txt"], follow=True),
        Program("id", ["id"]),
        Program("env", ["env"]),
    ]


def make_world(folder: Path, given: list[Path]) -> None:
    """Fill a folder with what the programs work on. `given` are a built target and an object."""
    lines = [f"line {i * 7919 % 20011}\n" for i in range(20000)]
    (folder / "big.txt").write_text("".join(lines))
    (folder / "in.txt").write_text("".join(lines[:200]))
    (folder / "other.txt").write_text("".join([*lines[3:190], "last\n"]))
    (folder / "key.pub").write_text(KEY)
    (folder / "in.json").write_text("[" + ",".join(f'{{"n":{i}}}' for i in range(3000)) + "]")
    for name, text in (("in.c", C), ("in.cc", CXX), ("Hello.java", JAVA), ("Makefile", MAKEFILE)):
        (folder / name).write_text(text)
    for i in range(40):
        path = folder / "tree" / f"d{i % 5}" / f"file{i}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * i * 17)
    for path in given:
        os.link(path, folder / path.name)

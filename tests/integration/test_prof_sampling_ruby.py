# SPDX-License-Identifier: Apache-2.0
"""Frames of Ruby in samples, against what Ruby says of its own frames."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from soscope.instruments.prof.model import Profile
from soscope.instruments.prof.samples import add_samples
from soscope.instruments.prof.sampling.instrument import SamplerProcess
from soscope.live.images.images import find_images
from soscope.live.images.space import Space
from soscope.live.ruby.frames import RubyStacks
from soscope.live.ruby.layout import find_ruby
from tests.support.machines.rubies import found, rubies
from tests.support.processes.sampled import sampled
from tests.support.processes.stopped import thread_pointer
from tests.support.targets import build
from tests.support.targets.build import made_in

TARGETS = build.TARGETS
HOT = """
require 'zlib'

DATA = (0..255).map(&:chr).join * 400

class Work
  def packs
    Zlib.deflate(DATA, 6)
  end

  def self.adds
    total = number = 0
    while number < 20000
      total += number
      number += 1
    end
  end
end

def both(share)
  stop = clock + share
  yield while clock < stop
end

def clock
  Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
end

puts 'begun'
$stdout.flush
$stdin.gets
both(0.6) { Work.new.packs }
both(0.2) { Work.adds }
"""
HOT_LINES = ("both(0.6) { Work.new.packs }", "both(0.2) { Work.adds }")
C_METHODS = {"each"}  # they are on the native stack


def is_rubys(path: str) -> bool:
    return path.startswith("<internal:")


@pytest.mark.parametrize("way", ["", "fiber", "thread"])
@pytest.mark.parametrize("ruby", rubies())
def test_frames_are_those_that_ruby_tells(ruby: str, way: str) -> None:
    with subprocess.Popen(
        [found(ruby), TARGETS / "ruby_frames.rb", way], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        try:
            told = [line.rstrip("\n").split("\t") for line in iter(program.stdout.readline, "\n")]
            os.waitid(os.P_PID, program.pid, os.WSTOPPED | os.WNOWAIT)
            space = Space(program.pid)
            known = find_ruby(find_images(space))
            assert known is not None
            stacks = RubyStacks(space, known)
            tids = [int(tid) for tid in os.listdir(f"/proc/{program.pid}/task")]
            pointers = [thread_pointer(tid) for tid in tids]
            of_threads = [stacks.frames(pointer, 512) for pointer in pointers]
            again = [stacks.frames(pointer, 512) for pointer in pointers]
            assert again == of_threads
            seen = max(of_threads, key=len)
            space.close()
        finally:
            program.kill()
    own = [frame for frame, _ in seen if not is_rubys(frame[1] or "")]
    truth = [row for row in told if row[2] not in C_METHODS and not is_rubys(row[0])]
    owner = re.compile(r"(\S+[#.])(?=\w+$)")
    assert [(file, line, owner.sub("", name)) for name, file, line in own] == [
        (path, int(line), owner.sub("", label)) for path, line, label in truth
    ]
    names = {name for name, _, _ in own}
    assert names >= {"Outer::Inner#last", "Outer::Inner.build", "Shared#shared", "called"}
    assert {"rescue in Outer::Inner#finish", "block in Shared#shared"} <= names


def test_frames_of_ruby_stand_among_those_of_c() -> None:
    profile = Profile([])
    add_samples(sampled([found("ruby"), "-e", HOT]), profile)
    by_line: Counter[int | None] = Counter()
    for sample in profile.samples:
        images = [frame.image or "" for frame in sample.frames]
        own = [frame for frame in sample.frames if not frame.image]
        names = [frame.symbol for frame in own]
        if names[-2:] == ["Object#both", "<main>"]:  # the line says for which of the two it is
            by_line[own[-1].line] += sample.weight
        for name in ("Work#packs", "Work.adds"):
            if name in names:
                place = names.index(name)
                assert names[place:] == [name, "block in <main>", "Object#both", "<main>"]
                assert images[-1], "the interpreter itself was called by C code"
        if any(image.startswith("libz") for image in images):
            assert "Work#packs" in names
    packs, adds = (HOT.splitlines().index(line) + 1 for line in HOT_LINES)
    assert by_line.keys() == {packs, adds}
    assert by_line[packs] > by_line[adds]  # three times as long


def test_a_ruby_that_is_not_known_is_said_once(tmp_path: Path) -> None:
    source, program = tmp_path / "other.c", tmp_path / "other"
    source.write_text(
        "#include <unistd.h>\n"
        'const char ruby_version[] = "9.8.7";\n'
        "void rb_tracepoint_new(void) {}\n"
        "int main(void) { return (int)pause(); }\n"
    )
    made_in(tmp_path, "cc", "-rdynamic", "-o", program, source)
    sampler = SamplerProcess(100)
    with subprocess.Popen([program]) as running:
        sampler.add(running.pid)
        running.send_signal(signal.SIGKILL)
    (said,) = [one["process"] for one in sampler.end() if "process" in one]
    why = "frames of Ruby are not seen: Ruby 9.8.7 (other): its frames are not known"
    assert said == [running.pid, None, why]

"""What a rank prints has its number."""

import io

from ampcore.distributed.launchers.rank_output import RankPrefix, with_prefix_of


def test_each_line_has_the_number_once():
    stream = io.StringIO()
    prefixed = RankPrefix(stream, 3)
    print("one\ntwo", "words", file=prefixed)
    prefixed.write("half")
    prefixed.writelines([" a line\n", "\n"])
    prefixed.flush()
    assert stream.getvalue() == "rank 3: one\nrank 3: two words\nrank 3: half a line\nrank 3: \n"
    assert prefixed.getvalue() == stream.getvalue()  # the rest is the stream itself


def test_a_replacement_keeps_the_prefix():
    stream = io.StringIO()
    with_prefix_of(RankPrefix(io.StringIO(), 1), stream).write("text")
    with_prefix_of(io.StringIO(), stream).write(" again")
    assert stream.getvalue() == "rank 1: text again"

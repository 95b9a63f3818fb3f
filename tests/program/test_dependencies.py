"""Which instruction waits for which, and how much a Program takes."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

X = np.zeros((128, 64), np.float32)


def recorded(body):
    def kernel(x):
        body(x)
        return x

    program = nki.record(kernel, X)
    return program, [program.producers(at) for at in range(program.instructions)]


def tile(*shape, dtype=nl.float32, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype, buffer=buffer)


VECTOR, SCALAR, GPSIMD = nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd


def test_read_after_write_write_after_read_write_after_write():
    def body(x):
        a, b = tile(128, 64), tile(128, 64)
        nisa.memset(a, 0.0, engine=VECTOR)  # 0
        nisa.activation(b, nl.exp, a)  # 1 reads a
        nisa.memset(a, 1.0, engine=GPSIMD)  # 2 writes what 0 wrote and 1 reads
        nisa.memset(b, 1.0, engine=VECTOR)  # 3 writes what 1 wrote

    _, producers = recorded(body)
    assert producers[0] == []
    assert producers[1] == [0]
    assert producers[2] == [0, 1]
    assert producers[3] == [1]


def test_a_chain_on_one_tile_waits_for_each_result():
    def body(x):
        a = tile(128, 64)
        nisa.memset(a, 0.0, engine=VECTOR)
        for _ in range(2):
            nisa.tensor_scalar(a, a, nl.add, 1.0, engine=VECTOR)
        nisa.activation(a, nl.exp, a)
        nisa.activation(a[:, 0:32], nl.exp, a[:, 0:32])

    _, producers = recorded(body)
    assert producers == [[], [0], [1], [2], [3]]


def test_independent_instructions_wait_for_nothing():
    def body(x):
        for engine in (VECTOR, GPSIMD, VECTOR, GPSIMD):
            nisa.memset(tile(128, 64), 0.0, engine=engine)
        a = tile(128, 64)
        nisa.memset(a[:, 0:32], 0.0, engine=VECTOR)
        nisa.memset(a[:, 32:64], 0.0, engine=GPSIMD)
        nisa.memset(a[0:32, 0:32], 0.0, engine=VECTOR)

    _, producers = recorded(body)
    assert producers[:6] == [[]] * 6


def test_two_readers_do_not_wait_for_each_other():
    def body(x):
        a = tile(128, 64)
        nisa.memset(a, 0.0, engine=VECTOR)
        nisa.activation(tile(128, 64), nl.exp, a)
        nisa.tensor_copy(tile(128, 64), a, engine=GPSIMD)

    _, producers = recorded(body)
    assert producers[1:] == [[0], [0]]


def test_partial_writers_are_all_waited_for():
    def body(x):
        a = tile(128, 64)
        nisa.memset(a[:, 0:32], 0.0, engine=VECTOR)
        nisa.memset(a[:, 32:64], 0.0, engine=GPSIMD)
        nisa.activation(tile(128, 64), nl.exp, a)

    _, producers = recorded(body)
    assert producers[2] == [0, 1]


def test_transfers_are_waited_for_one_by_one():
    def body(x):
        a = tile(128, 64)
        nisa.dma_copy(a[:, 0:32], x[:, 0:32])
        nisa.dma_copy(a[:, 32:64], x[:, 32:64])
        nisa.activation(a, nl.exp, a)
        nisa.dma_copy(x, a)

    _, producers = recorded(body)
    assert producers[2] == [0, 1]
    assert producers[3] == [0, 1, 2] or producers[3] == [2]


def test_a_product_waits_for_its_operands_and_a_reader_for_the_product():
    def body(x):
        s, t, p = tile(128, 64, dtype=nl.bfloat16), tile(128, 64, dtype=nl.bfloat16), tile(64, 64, buffer=nl.psum)
        nisa.memset(s, 0.0, engine=VECTOR)
        nisa.memset(t, 0.0, engine=GPSIMD)
        nisa.nc_matmul(p, s, t)
        nisa.nc_matmul(p, s, t)
        nisa.activation(tile(64, 64), nl.copy, p)
        nisa.nc_matmul(p, s, t, accumulate=False)

    _, producers = recorded(body)
    assert producers[2] == [0, 1]
    assert set(producers[3]) <= {0, 1}
    assert producers[4] == [3]
    assert 4 in producers[5]


def test_views_backwards_cover_what_they_read_and_write():
    def body(x):
        a = tile(128, 64)
        nisa.memset(a[:, 0:8], 0.0, engine=VECTOR)
        backwards = a.ap([[64, 128], [-1, 8]], offset=7)
        nisa.activation(tile(128, 8), nl.exp, backwards)
        nisa.memset(a[:, 0:1], 0.0, engine=GPSIMD)

    _, producers = recorded(body)
    assert producers[1] == [0]
    assert 1 in producers[2]


def test_a_reused_psum_bank_waits_for_its_last_user():
    def body(x):
        s = tile(128, 64, dtype=nl.bfloat16)
        nisa.memset(s, 0.0, engine=VECTOR)
        for _ in range(9):
            p = tile(64, 512, buffer=nl.psum)
            nisa.memset(p, 0.0, engine=VECTOR)
            nisa.activation(tile(64, 512), nl.copy, p)

    program, producers = recorded(body)
    banks = [address for name, space, address, *_ in program.tensors() if space == "psum"]
    assert len(set(banks)) == 8
    assert banks[8] == banks[0]
    first_reader, last_writer = 2, 17
    assert first_reader in producers[last_writer] or any(
        first_reader <= p and program.opcodes()[p] == "activation" for p in producers[last_writer]
    )


def test_a_reused_sbuf_address_waits_for_its_last_user():
    def body(x):
        for _ in range(8):
            a = tile(128, 16384)
            nisa.memset(a, 0.0, engine=VECTOR)
            nisa.activation(a, nl.exp, a)

    program, producers = recorded(body)
    addresses = [address for name, space, address, *_ in program.tensors() if space == "sbuf"]
    assert len(set(addresses)) < 8
    reused = next(at for at in range(1, 8) if addresses[at] in addresses[:at])
    before = addresses.index(addresses[reused])
    assert any(p >= 2 * before + 1 and p % 2 == 1 for p in producers[2 * reused])


def test_two_operands_on_one_fresh_tile_are_both_remembered():
    def body(x):
        source, a = tile(128, 64), tile(128, 64)
        nisa.memset(source, 0.0, engine=VECTOR)
        nisa.activation(
            a[:, 0:32],
            nl.exp,
            source[:, 0:32],
            reduce_op=nl.add,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
            reduce_res=a[:, 63:64],
        )
        nisa.tensor_copy(tile(128, 32), a[:, 0:32], engine=GPSIMD)
        nisa.tensor_copy(tile(128, 1), a[:, 63:64], engine=VECTOR)

    _, producers = recorded(body)
    assert producers[1:] == [[0], [1], [1]]


def test_producers_come_first_and_each_once():
    def body(x):
        a = nl.load(x)
        for _ in range(20):
            b = nl.add(a, a)
            a = nl.exp(b)
            nl.store(x, a)

    _, producers = recorded(body)
    for at, before in enumerate(producers):
        assert all(p < at for p in before)
        assert before == sorted(set(before))


def test_a_tiled_matmul_takes_at_most_128_bytes_an_instruction():
    def kernel(a, b):
        out = nl.ndarray((512, 2048), nl.float32, buffer=nl.shared_hbm)
        for m in range(4):
            for n in range(4):
                p = tile(128, 512, buffer=nl.psum)
                for k in range(8):
                    s, t = tile(128, 128, dtype=nl.bfloat16), tile(128, 512, dtype=nl.bfloat16)
                    nisa.dma_copy(s, a[128 * k : 128 * k + 128, 128 * m : 128 * m + 128])
                    nisa.dma_copy(t, b[128 * k : 128 * k + 128, 512 * n : 512 * n + 512])
                    nisa.nc_matmul(p, s, t)
                nl.store(out[128 * m : 128 * m + 128, 512 * n : 512 * n + 512], nl.copy(p))
        return out

    a, b = np.zeros((1024, 512), nl.bfloat16), np.zeros((1024, 2048), nl.bfloat16)
    program = nki.record(kernel, a, b)
    assert program.instructions == 4 * 4 * (8 * 3 + 2)
    assert program.bytes_per_instruction <= 128


def test_order_of_values_is_program_order_whatever_waits():
    """Shuffling nothing: running a Program twice gives the same bits, and so does one that interleaves engines."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((128, 64)).astype(np.float32)

    def kernel(a):
        tiles = [nl.load(a) for _ in range(3)]
        for at in range(30):
            one, two = tiles[at % 3], tiles[(at * 7 + 1) % 3]
            nisa.tensor_tensor(one[:, 0:40], two[:, 10:50], one[:, 20:60], nl.subtract)
            nisa.activation(two, nl.tanh, one)
        nl.store(a, tiles[0])
        return a

    model = [x.copy() for _ in range(3)]
    simulated = nki.simulate(kernel)
    first, second = simulated(x.copy()), simulated(x.copy())
    np.testing.assert_array_equal(first, second)
    for at in range(30):
        one, two = model[at % 3], model[(at * 7 + 1) % 3]
        one[:, 0:40] = two[:, 10:50] - one[:, 20:60]
        two[:] = np.tanh(one.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(first, model[0], atol=1e-5)


# Every conflict is ordered -------------------------------------------------------------------------------------------

BLOCK = 1024
BLOCKS = 12


@st.composite
def programs(draw):
    """Tiles that fill SBUF a few times over, and instructions on windows of them: (engine, write, read or None)."""
    count = draw(st.integers(2, 7))
    steps = []
    for _ in range(draw(st.integers(2, 25))):
        engine = draw(st.sampled_from(["vector", "gpsimd", "scalar", "dma"]))
        windows = []
        for _ in range(2):
            tensor = draw(st.integers(0, count - 1))
            first, half = draw(st.integers(0, BLOCKS - 4)), draw(st.sampled_from([(0, 128), (0, 64), (64, 128)]))
            by = draw(st.sampled_from([1, 2, -1]))
            windows.append((tensor, first, half, by))
        reads = engine in ("scalar", "dma") or draw(st.booleans())
        windows[1] = (*windows[1][:2], windows[0][2], windows[1][3])
        steps.append((engine, windows[0], windows[1] if reads else None))
    return count, steps


def cells(window):
    """(partition half, block) pairs of two blocks of a window."""
    _, first, half, by = window
    blocks = {1: (first, first + 1), 2: (first, first + 2), -1: (first + 1, first)}[by]
    halves = (0, 1) if half == (0, 128) else (half[0] // 64,)
    return {(h, b) for h in halves for b in blocks}


@settings(max_examples=150)
@given(programs())
def test_every_conflict_through_bytes_is_ordered(given_program):
    count, steps = given_program

    def kernel(x):
        # Tiles are declared when first used, one after the other, so that later ones take over addresses.
        tiles = {}

        def view(window):
            tensor, first, (low, high), by = window
            if tensor not in tiles:
                tiles[tensor] = tile(128, BLOCKS * BLOCK)
            base = tiles[tensor][low:high]
            if by == -1:
                return base.ap([[BLOCKS * BLOCK, high - low], [-1, 2 * BLOCK]], offset=(first + 2) * BLOCK - 1)
            return base.reshape((high - low, BLOCKS, BLOCK))[:, first : first + 2 * by : by]

        for engine, write, read in steps:
            target = view(write)
            if read is None:
                nisa.memset(target, 0.0, engine=nisa.engine[engine])
            elif engine == "scalar":
                nisa.activation(target, nl.copy, view(read))
            elif engine == "dma":
                nisa.dma_copy(target, view(read))
            else:
                nisa.tensor_copy(target, view(read), engine=nisa.engine[engine])
        return x

    try:
        program = nki.record(kernel, X)
    except errors.CapacityError:
        return
    if program.spills():
        return
    order, seen = [], set()
    for _, write, read in steps:
        for window in (write, read):
            if window and window[0] not in seen:
                seen.add(window[0])
                order.append(window[0])
    sbuf = [address for _, space, address, *_ in program.tensors() if space == "sbuf"]
    place = dict(zip(order, sbuf, strict=True))

    def bytes_of(window):
        return {(h, place[window[0]] // (4 * BLOCK) + b) for h, b in cells(window)}

    # What has certainly completed before an instruction starts.
    done: list[set[int]] = []
    last: dict[str, int] = {}
    history: dict[str, list[int]] = {}
    for at, (engine, write, read) in enumerate(steps):
        before: set[int] = set()
        if engine != "dma" and engine in last:
            before |= done[last[engine]]
        for producer in program.producers(at):
            before |= {producer} | done[producer]
            if steps[producer][0] != "dma":
                before |= {e for e in history[steps[producer][0]] if e <= producer}
        done.append(before)
        for earlier in range(at):
            e_engine, e_write, e_read = steps[earlier]
            raw = read is not None and bytes_of(e_write) & bytes_of(read)
            waw = bytes_of(e_write) & bytes_of(write)
            war = e_read is not None and bytes_of(e_read) & bytes_of(write)
            # An engine takes its own writes and reads in order; only what it has just written must have completed.
            in_order = engine == e_engine != "dma"
            if raw or ((waw or war) and not in_order):
                assert earlier in before, (earlier, at)
        if engine != "dma":
            last[engine] = at
            history.setdefault(engine, []).append(at)


def test_views_of_other_data_types_meet_in_bytes():
    def kernel(x):
        rows = nl.ndarray((4, 6), nl.uint8, buffer=nl.hbm)
        tile = nl.ndarray((4, 6), nl.uint8)
        nisa.memset(tile, 1)
        for row in range(4):
            nisa.dma_copy(rows[row : row + 1], tile[0:1])
        word = nl.ndarray((1, 1), nl.float32)
        nisa.dma_copy(word, rows.reshape((24,)).view(nl.float32)[5:6])
        out = nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, word)
        return out

    program = nki.record(kernel, np.ones((1, 1), np.float32))
    # Bytes 20 to 23 were written by the last row, instruction 4.
    assert program.producers(5) == [4]


def test_many_small_pieces_wait_for_their_own_only():
    def kernel(x):
        out = nl.ndarray((600, 4), nl.float32, buffer=nl.shared_hbm)
        for row in range(600):
            nisa.dma_copy(out[row : row + 1], nl.load(x[row : row + 1]))
        back = nl.ndarray((1, 4), nl.float32)
        nisa.dma_copy(back, out[333:334])
        nisa.dma_copy(out[0:1], back)
        return out

    program = nki.record(kernel, np.ones((600, 4), np.float32))
    assert program.producers(1200) == [2 * 333 + 1]
    assert set(program.producers(1201)) == {1, 1200}

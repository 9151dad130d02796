"""Writes the memory snapshots that tests import, in the form that torch.cuda.memory._dump_snapshot saves.

No PyTorch is needed: a small model of its caching allocator makes the history and the final state, so that the two
agree as they do in a real snapshot. Run in this folder: python3 make_snapshots.py
"""

import json
import pickle
import random

BASE = 0x7F00_0000_0000
SMALL, LARGE = 2 << 20, 20 << 20


def frames(place):
    """A stack, innermost frame first: C++, PyTorch's own Python, the program."""
    own = [("conv", 41), ("forward", 77), ("step", 130)][place]
    return [
        {"filename": "??", "name": "c10::cuda::alloc", "line": 0},
        {"filename": "/venv/torch/nn/modules/module.py", "name": "_call_impl", "line": 1501},
        {"filename": "model/train.py", "name": own[0], "line": own[1]},
        {"filename": "model/train.py", "name": "<module>", "line": 200},
    ]


class Device:
    """First fit in segments, blocks of multiples of 512 bytes, released blocks that wait for a stream."""

    def __init__(self, number, seed):
        self.number, self.random, self.time = number, random.Random(seed), 1_700_000_000_000_000
        self.segments, self.live, self.pending, self.trace = [], {}, {}, []
        self.next = BASE + (number << 40)
        self.stacks = [frames(place) for place in range(3)]

    def entry(self, action, addr, size, stack=None, **more):
        self.time += self.random.randrange(3)
        self.trace.append(
            {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": self.time,
             "frames": self.stacks[stack] if stack is not None else [], **more})

    def blocks(self, segment):
        both = {**self.live, **self.pending}
        return sorted((a, b) for a, b in both.items() if segment[0] <= a < segment[0] + segment[1])

    def find(self, size, small):
        for segment in self.segments:
            if (segment[1] == SMALL) != small:
                continue
            at = segment[0]
            for a, b in self.blocks(segment):
                if a - at >= size:
                    return at
                at = a + b["size"]
            if segment[0] + segment[1] - at >= size:
                return at
        return None

    def alloc(self, requested):
        size = -(-requested // 512) * 512
        small = size <= 1 << 20
        at, stack = self.find(size, small), self.random.randrange(3)
        if at is None:
            total = SMALL if small else max(LARGE, -(-size // SMALL) * SMALL)
            at, self.next = self.next, self.next + total + (64 << 20)
            self.segments.append((at, total))
            self.entry("segment_alloc", at, total, stack)
        more = {"user_metadata": "warm-up"} if self.random.randrange(8) == 0 else {}
        self.entry("alloc", at, requested, stack, **more)
        self.live[at] = {"size": size, "requested_size": requested, "stack": stack}

    def release(self):
        at = self.random.choice(sorted(self.live))
        block = self.live.pop(at)
        self.entry("free_requested", at, block["requested_size"], block["stack"])
        if self.random.randrange(4) == 0:
            self.pending[at] = block
        else:
            self.entry("free_completed", at, block["requested_size"], block["stack"])

    def complete(self):
        at = self.random.choice(sorted(self.pending))
        self.entry("free_completed", at, self.pending.pop(at)["requested_size"])

    def empty_cache(self):
        for segment in [found for found in self.segments if not self.blocks(found)]:
            self.segments.remove(segment)
            self.entry("segment_free", segment[0], segment[1])

    def run(self, steps):
        for step in range(steps):
            choice = self.random.randrange(100)
            if choice < 50 or not self.live:
                self.alloc(self.random.choice([7, 512, 1000, 65536, 700_000, 3_000_000, 11_000_000]))
            elif choice < 90:
                self.release()
            elif choice < 96 and self.pending:
                self.complete()
            elif choice == 97:
                self.entry("oom", 123_456, 99_000_000_000, 2)
            elif choice == 98:
                self.entry("snapshot", 0, 0)
            else:
                self.empty_cache()

    def state(self):
        found = []
        for address, total in self.segments:
            blocks, at = [], address
            for a, b in [*self.blocks((address, total)), (address + total, None)]:
                if a > at:
                    blocks.append({"address": at, "size": a - at, "requested_size": 0, "state": "inactive", "frames": []})
                if b is not None:
                    state = "active_pending_free" if a in self.pending else "active_allocated"
                    blocks.append({"address": a, "size": b["size"], "requested_size": b["requested_size"],
                                   "state": state, "frames": self.stacks[b["stack"]]})
                    at = a + b["size"]
            found.append({
                "device": self.number, "address": address, "total_size": total, "stream": 0,
                "segment_type": "small" if total == SMALL else "large", "segment_pool_id": (0, 0),
                "allocated_size": sum(b["size"] for b in blocks if b["state"] == "active_allocated"),
                "active_size": sum(b["size"] for b in blocks if b["state"] != "inactive"),
                "requested_size": sum(b["requested_size"] for b in blocks), "is_expandable": False,
                "frames": [], "blocks": blocks})
        return found


def write(name, snapshot, protocol=pickle.DEFAULT_PROTOCOL):
    with open(name, "wb") as file:
        pickle.dump(snapshot, file, protocol=protocol)


def expandable():
    """Memory that is mapped piece by piece behind one range of addresses, and taken away again."""
    piece, time, trace = 20 << 20, [5_000], []

    def entry(action, addr, size, place=None):
        time[0] += 10
        trace.append({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time[0],
                      "frames": frames(place) if place is not None else []})

    entry("segment_map", BASE, piece)
    entry("alloc", BASE, 15 << 20, 0)
    entry("segment_map", BASE + piece, piece)
    # Across the border of the two pieces.
    entry("alloc", BASE + (15 << 20), 20 << 20, 1)
    entry("segment_map", BASE + 2 * piece, piece)
    entry("alloc", BASE + (35 << 20), 10 << 20, 2)
    entry("free_requested", BASE + (35 << 20), 10 << 20)
    entry("free_completed", BASE + (35 << 20), 10 << 20)
    entry("segment_unmap", BASE + 2 * piece, piece)
    block = {"requested_size": 0, "frames": []}
    blocks = [
        {**block, "address": BASE, "size": 15 << 20, "requested_size": 15 << 20, "state": "active_allocated"},
        {**block, "address": BASE + (15 << 20), "size": 20 << 20, "requested_size": 20 << 20,
         "state": "active_allocated"},
        {**block, "address": BASE + (35 << 20), "size": 5 << 20, "state": "inactive"},
    ]
    segment = {"device": 0, "address": BASE, "total_size": 2 * piece, "stream": 0, "segment_type": "large",
               "segment_pool_id": (0, 0), "is_expandable": True, "frames": [], "blocks": blocks}
    return {"segments": [segment], "device_traces": [trace], "allocator_settings": {"expandable_segments": True}}


def native(*names):
    """Calls of C++, as the unwinder finds them: of most neither the file nor the line is known."""
    return [{"filename": "??", "name": name, "line": 0} for name in names]


def calls():
    """Stacks of Python and C++ together. In the backward pass no call is of Python."""
    allocator = native(
        "torch::unwind::unwind()", "torch::CapturedTraceback::gather(bool, bool, bool)",
        "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)",
        "at::detail::empty_generic(c10::ArrayRef<long>, c10::Allocator*)",
        "at::_ops::empty_memory_format::call(c10::ArrayRef<c10::SymInt>)")
    thread = native(
        "torch::autograd::Node::operator()(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)",
        "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)",
        "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)", "__clone")
    interpreter = native("_PyEval_EvalFrameDefault")

    def python(filename, line, name):
        return [{"filename": filename, "name": name, "line": line}]

    linear = python("torch/nn/functional.py", 12, "linear")
    module = python("torch/nn/modules/module.py", 1790, "_call_impl")
    program = python("train.py", 9, "forward") + interpreter + python("train.py", 28, "<module>") + native("_start")
    stacks = [
        allocator + native("at::_ops::addmm::call(at::Tensor const&)") + linear + interpreter + module + program,
        allocator + native(
            "at::native::bmm(at::Tensor const&)", "at::_ops::bmm::call(at::Tensor const&, at::Tensor const&)",
            "torch::autograd::generated::BmmBackward0_apply_functional(std::array<bool, 2ul>)",
            "torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)") + thread,
        allocator + native(
            "at::_ops::zeros::call(c10::ArrayRef<c10::SymInt>)", "at::_ops::stack::call(c10::ArrayRef<at::Tensor>)",
            "start_thread"),
        native("torch::unwind::unwind()", "start_thread"),
    ]
    trace = [{"action": "segment_alloc", "addr": BASE, "size": LARGE, "stream": 0, "time_us": 1, "frames": []}]
    blocks = []
    for number, stack in enumerate(stacks):
        at, size = BASE + (number << 20), (number + 1) << 16
        trace.append({"action": "alloc", "addr": at, "size": size, "stream": 0, "time_us": number + 2, "frames": stack})
        blocks.append({"address": at, "size": size, "requested_size": size, "state": "active_allocated", "frames": stack})
        end = BASE + LARGE if number + 1 == len(stacks) else at + (1 << 20)
        blocks.append({"address": at + size, "size": end - at - size, "requested_size": 0, "state": "inactive", "frames": []})
    segment = {"device": 0, "address": BASE, "total_size": LARGE, "stream": 0, "segment_type": "large",
               "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks}
    return {"segments": [segment], "device_traces": [trace], "allocator_settings": {}}


def main():
    devices = [Device(0, 1), Device(1, 2)]
    devices[0].run(300)
    early = {at: dict(block) for at, block in devices[0].live.items()}
    devices[0].run(500)
    devices[1].run(60)
    snapshot = {
        "segments": [segment for device in devices for segment in device.state()],
        "device_traces": [device.trace for device in devices],
        "allocator_settings": {"garbage_collection_threshold": 0.0, "max_split_size": -1},
        "external_annotations": [],
    }
    for protocol in range(2, 6):
        small = {**snapshot, "device_traces": [devices[0].trace[-40:], devices[1].trace[-40:]]}
        write(f"snapshot-protocol-{protocol}.pickle", small, protocol)
    write("snapshot.pickle", snapshot)
    # The ring lost the beginning: the last entries and the same final state.
    write("snapshot-ring.pickle", {**snapshot, "device_traces": [devices[0].trace[-400:], devices[1].trace]})
    write("snapshot-expandable.pickle", expandable())
    write("snapshot-calls.pickle", calls())
    # What the state was when the ring began, for the test of the walk backwards.
    lost = len(devices[0].trace) - 400
    live = {}
    for entry in devices[0].trace[:lost]:
        if entry["action"] == "alloc":
            live[entry["addr"]] = [entry["size"], False]
        elif entry["action"] == "free_requested":
            live[entry["addr"]][1] = True
        elif entry["action"] == "free_completed":
            del live[entry["addr"]]
    assert early and live
    with open("snapshot-ring.json", "w") as file:
        json.dump([[at, *found] for at, found in sorted(live.items())], file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()

"""Turns what ``trace=FILE`` recorded into scenarios of the benchmark of resources.

A scenario is what one thread does in a round, at whose end nothing is live: lines of ``thread,operation,id,bytes`` with
``a`` and ``f`` for operations. Its ids are slots, which are used again.
"""

import csv
import heapq

from .errors import Error


def scenario(lines):
    """The lines of a scenario, from lines of a recording: dictionaries as ``csv.DictReader`` gives them. Blocks that
    were allocated before are left out; those that are live in the end are freed then, the last first."""
    rows, live = [], {}
    unused, slots = [], 0
    for line in lines:
        block = line["id"]
        if line["operation"] == "malloc":
            if unused:
                slot = heapq.heappop(unused)
            else:
                slot, slots = slots, slots + 1
            live[block] = (line["thread"], slot, line["size"])
            rows.append((line["thread"], "a", slot, line["size"]))
        elif line["operation"] == "free":
            if block in live:
                _, slot, size = live.pop(block)
                heapq.heappush(unused, slot)
                rows.append((line["thread"], "f", slot, size))
        else:
            raise Error(f"a trace has the operation `{line['operation']}`, but resources only have malloc and free")
    for thread, slot, size in reversed(live.values()):
        rows.append((thread, "f", slot, size))
    return rows


def convert(recording, output, first=0, last=None):
    """Writes a scenario from the lines ``first`` up to ``last`` of a recording, counted without the header. Returns
    how many allocations it has."""
    with open(recording, newline="", encoding="utf-8") as file:
        rows = scenario(list(csv.DictReader(file))[first:last])
    with open(output, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("thread", "operation", "id", "bytes"))
        writer.writerows(rows)
    return sum(row[1] == "a" for row in rows)

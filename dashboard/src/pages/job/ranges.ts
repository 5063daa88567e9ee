// Which steps the plots show, and how one moves among them.
import type { Range } from "../../plots/marks.ts";

/** The steps asked for in an address; null: all of them. */
export function rangeOf(query: URLSearchParams): Range | null {
  const [from, to] = [Number(query.get("from") ?? NaN), Number(query.get("to") ?? NaN)];
  return Number.isInteger(from) && Number.isInteger(to) && from >= 0 && to > from ? [from, to] : null;
}

/** Whole steps around what was selected, within what there is; null: all of it. */
export function zoomedTo(selected: Range, all: Range): Range | null {
  const start = Math.max(all[0], Math.floor(selected[0]));
  const end = Math.min(Math.max(all[1], start + 1), Math.max(Math.ceil(selected[1]), start + 1));
  return start <= all[0] && end >= all[1] ? null : [start, end];
}

/** Twice as near, or half as near, around the middle. */
export function scaled(range: Range, factor: number, all: Range): Range | null {
  const middle = (range[0] + range[1]) / 2;
  const half = Math.max(1, ((range[1] - range[0]) * factor) / 2);
  return zoomedTo([middle - half, middle + half], all);
}

/** A half of the width to the side. */
export function moved(range: Range, sign: 1 | -1, all: Range): Range | null {
  const width = range[1] - range[0];
  const start = Math.min(Math.max(all[0], range[0] + (sign * width) / 2), Math.max(all[0], all[1] - width));
  return zoomedTo([start, start + width], all);
}

// The range of steps that the plots show: zooming and panning.
import type { StepRange } from "../../plots/skip-markers.ts";

/** The range in the address; null for all steps. */
export function rangeFromQuery(query: URLSearchParams): StepRange | null {
  const [from, to] = [Number(query.get("from") ?? NaN), Number(query.get("to") ?? NaN)];
  return Number.isInteger(from) && Number.isInteger(to) && from >= 0 && to > from ? [from, to] : null;
}

/** The selection as whole steps within all; null for all steps. */
export function zoomTo(selected: StepRange, all: StepRange): StepRange | null {
  const start = Math.max(all[0], Math.floor(selected[0]));
  const end = Math.min(Math.max(all[1], start + 1), Math.max(Math.ceil(selected[1]), start + 1));
  return start <= all[0] && end >= all[1] ? null : [start, end];
}

/** Zoom by a factor around the middle. */
export function zoomBy(range: StepRange, factor: number, all: StepRange): StepRange | null {
  const middle = (range[0] + range[1]) / 2;
  const half = Math.max(1, ((range[1] - range[0]) * factor) / 2);
  return zoomTo([middle - half, middle + half], all);
}

/** Move by half of the width. */
export function pan(range: StepRange, sign: 1 | -1, all: StepRange): StepRange | null {
  const width = range[1] - range[0];
  const start = Math.min(Math.max(all[0], range[0] + (sign * width) / 2), Math.max(all[0], all[1] - width));
  return zoomTo([start, start + width], all);
}

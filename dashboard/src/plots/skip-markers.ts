// The markers of skipped steps: a limited number, and every skipped step belongs to one.
import type { Steps } from "../api/types.ts";
import { integer } from "../display/format.ts";

export interface SkipMarker {
  first: number;
  last: number; // the last skipped step of the marker; not every step before it was skipped
  count: number;
}

export type StepRange = readonly [start: number, end: number];

/** So few that each, 11 px wide, can be clicked on plots of 1,100 px. */
const MAX_MARKERS = 96;

/** The markers of a range of steps; skipped steps that lie close together share one. */
export function skipMarkers(steps: Steps, range: StepRange, slots = MAX_MARKERS): SkipMarker[] {
  const width = Math.max(1, range[1] - range[0]) / slots;
  const markers = new Map<number, SkipMarker>();
  for (const one of skippedRanges(steps)) {
    if (one.last < range[0] || one.first > range[1]) continue; // of a wider range, whose steps are shown until finer ones arrive
    const slot = Math.floor((one.first - range[0]) / width);
    const marker = markers.get(slot);
    if (marker) Object.assign(marker, { last: one.last, count: marker.count + one.count });
    else markers.set(slot, { ...one });
  }
  return [...markers.values()];
}

export function middleOf({ first, last }: SkipMarker): number {
  return (first + last) / 2;
}

/** For example "2 skipped steps between 0 and 1". */
export function markerLabel(marker: SkipMarker): string {
  const [first, last] = [integer(marker.first), integer(marker.last)];
  if (marker.count === 1 && marker.first === marker.last) return `Skipped step ${first}`;
  const steps = marker.count === 1 ? "1 skipped step" : `${integer(marker.count)} skipped steps`;
  return `${steps} between ${first} and ${last}`;
}

/** Each skipped step; where the API does not list them all, each point that contains some. */
function* skippedRanges(steps: Steps): Generator<SkipMarker> {
  const skippedSteps = steps.skipped_steps;
  if (skippedSteps && skippedSteps.total === skippedSteps.steps.length) {
    for (const step of skippedSteps.steps) yield { first: step, last: step, count: 1 };
    return;
  }
  const data = steps.data as Record<string, (number | boolean)[] | undefined>;
  const [first, count, skipped] = [data["step"] ?? [], data["count"], data["skipped"] ?? []];
  for (const [index, step] of first.entries()) {
    const many = Number(skipped[index] ?? 0);
    const last = Number(step) + Number(count?.[index] ?? 1) - 1;
    if (many > 0) yield { first: Number(step), last, count: many };
  }
}

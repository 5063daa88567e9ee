// Where the time of a training went: the events `step_times` as stacked shares of each interval.
import type { Event } from "../api/types.ts";

export const PARTS = ["compute", "input", "diagnostics", "evaluation", "checkpoint", "telemetry", "other"] as const;
export type Part = (typeof PARTS)[number];

/** An interval of a training: its steps, and the share of its time that each part took. */
export interface Interval {
  from: number;
  to: number;
  wallS: number;
  shares: Record<Part, number>;
}

/** The intervals with steps, in the order of the steps; those that a later attempt repeated are left out. */
export function intervalsOf(events: readonly Event[]): Interval[] {
  const intervals: Interval[] = [];
  for (const { data } of events) {
    const times = data as Record<string, unknown>;
    const seconds = PARTS.map((part) => times[`${part}_s`]);
    const [from, steps] = [times["first_step"], times["steps"]];
    if (typeof from !== "number" || typeof steps !== "number" || !seconds.every((value) => typeof value === "number")) continue;
    const wallS = (seconds as number[]).reduce((sum, value) => sum + value, 0);
    if (!(wallS > 0)) continue;
    while (steps > 0 && (intervals.at(-1)?.to ?? 0) > from) intervals.pop();
    const shares = Object.fromEntries(PARTS.map((part, index) => [part, (seconds[index] as number) / wallS])) as Record<Part, number>;
    intervals.push({ from, to: from + steps, wallS, shares });
  }
  return intervals;
}

/** The seconds of each part over all intervals. */
export function totals(intervals: readonly Interval[]): [Part, number][] {
  return PARTS.map((part) => [part, intervals.reduce((sum, { shares, wallS }) => sum + shares[part] * wallS, 0)]);
}

// Groups consecutive events that differ in their numbers only, as ampclient/_display/event_groups.py does.
import type { Event } from "../api/types.ts";

export interface EventGroup {
  /** In the order of the log. */
  events: readonly Event[];
}

const MIN_GROUP = 3;
/** Types that a job can have by the hundred; results, as evaluations, are never grouped. */
const REPEATED: ReadonlySet<string> = new Set([
  "allocation", "overflow", "scale_growth", "loss_spike", "grad_norm_jump", "not_reproducible", "checkpoint_saved",
  "step_times", "warning",
]);
const NON_FINITE: ReadonlySet<unknown> = new Set(["NaN", "Infinity", "-Infinity"]);
const NUMBER = /-?\d[\d.,]*(?:e[-+]?\d+)?|\b(?:nan|inf|infinity)\b/gi;

/** The events in order, with three or more near-equal ones in a row as one group. */
export function groupEvents(events: readonly Event[]): EventGroup[] {
  const groups: EventGroup[] = [];
  let run: Event[] = [];
  let runKey: string | null = null;
  const close = () => {
    groups.push(...(run.length >= MIN_GROUP ? [{ events: run }] : run.map((event) => ({ events: [event] }))));
    run = [];
  };
  for (const event of events) {
    const key = keyOf(event);
    if (run.length > 0 && (key === null || key !== runKey)) close();
    run.push(event);
    runKey = key;
  }
  close();
  return groups;
}

/** The lowest and the highest step of the events; null if none has one. */
export function stepsOf({ events }: EventGroup): [number, number] | null {
  const steps = events.map(({ step }) => step).filter((step) => step !== null);
  return steps.length > 0 ? [Math.min(...steps), Math.max(...steps)] : null;
}

function keyOf(event: Event): string | null {
  return REPEATED.has(event.type) ? JSON.stringify([event.type, event.attempt, withoutNumbers(event.data)]) : null;
}

function withoutNumbers(value: unknown): unknown {
  if (typeof value === "string") return NON_FINITE.has(value) ? 0 : value.replace(NUMBER, "0");
  if (Array.isArray(value)) {
    const items = value.map(withoutNumbers);
    return items.length > 0 && items.every((item) => item === 0) ? [0] : items;
  }
  if (value !== null && typeof value === "object") {
    return Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, item]) => [name, withoutNumbers(item)]);
  }
  return typeof value === "number" ? 0 : value;
}

// Adds the steps of the event stream to the steps and the job that the page has loaded, so that it
// need not load them again.
import type { Job, Numeric, Steps, StepsEvent } from "../api/types.ts";

type Cell = boolean | Numeric | null;
type Table = Record<string, Cell[]>;

/** Above this number of points the server is asked for a coarser sample. */
export const MAX_LIVE_POINTS = 1500;
const STATISTICS = ["min", "max", "first", "last", "mean"] as const;

/**
 * The steps with those of the event; null if they do not fit, and all must be loaded again: another
 * attempt, missing steps, or too many points. A column that is not loaded is left out.
 */
export function withNewSteps(steps: Steps, event: StepsEvent): Steps | null {
  const attempt = steps.attempts.at(-1);
  const length = event.data["step"]?.length ?? 0;
  if (attempt === undefined || attempt.attempt !== event.attempt || event.first_step > attempt.end) return null;
  const known = attempt.end - event.first_step;
  if (known >= length) return steps; // loaded already
  const data = copied(steps.data as Table);
  const isSampled = "count" in data;
  for (let row = known; row < length; row++) {
    if (isSampled) addToSample(data, event.data as Table, row, steps.steps_per_point);
    else addStep(data, event.data as Table, row);
  }
  if (data["step"]!.length > MAX_LIVE_POINTS) return null;
  return {
    ...steps,
    data,
    attempts: [...steps.attempts.slice(0, -1), { ...attempt, end: event.first_step + length }],
    skipped_steps: withSkipped(steps.skipped_steps, event, known),
  };
}

/** The job after the steps of the event; its other fields are those of the last response. */
export function jobAfterSteps(job: Job, event: StepsEvent): Job {
  const length = event.data["step"]?.length ?? 0;
  const step = event.first_step + length;
  if (length === 0 || event.attempt !== job.attempt || step <= job.step) return job;
  const last = (name: string) => (event.data[name]?.at(-1) ?? null) as Numeric | null;
  const skipped = (event.data["skipped"] ?? []).slice(-(step - job.step)).filter(Boolean).length;
  const { loss, loss_scale, grad_norm, learning_rate } = { ...job.latest };
  return {
    ...job,
    step,
    progress: job.total_steps ? Math.min(1, step / job.total_steps) : job.progress,
    latest: job.latest && {
      ...job.latest,
      loss: last("loss") ?? loss ?? null,
      loss_scale: last("loss_scale") ?? loss_scale ?? null,
      grad_norm: last("grad_norm") ?? grad_norm ?? null,
      learning_rate: last("learning_rate") ?? learning_rate ?? null,
      skipped: (job.latest.skipped ?? 0) + skipped,
    },
  };
}

/** The job of a response, with the steps of the known one if the response was written before them. */
export function jobOfResponse(known: Job, response: Job): Job {
  if (response.attempt !== known.attempt || response.step >= known.step) return response;
  return { ...response, step: known.step, progress: known.progress, latest: known.latest };
}

/** The steps of a response, or the known ones if the response was written before the last of them. */
export function stepsOfResponse(known: Steps, response: Steps): Steps {
  const [before, now] = [known.attempts.at(-1), response.attempts.at(-1)];
  const isOlder = before !== undefined && now !== undefined && now.attempt === before.attempt && now.end < before.end;
  return isOlder ? known : response;
}

function copied(data: Table): Table {
  return Object.fromEntries(Object.entries(data).map(([name, column]) => [name, [...column]]));
}

function addStep(data: Table, rows: Table, row: number): void {
  for (const name of Object.keys(data)) data[name]!.push(rows[name]?.[row] ?? null);
}

/** Add a step to the last point, or as a new one; what no mean can show is a point of its own. */
function addToSample(data: Table, rows: Table, row: number, stepsPerPoint: number): void {
  const last = data["step"]!.length - 1;
  const count = Number(data["count"]![last] ?? stepsPerPoint);
  if (count >= stepsPerPoint || isSpecial(rows, row) || !isPlain(data, last)) addPoint(data, rows, row);
  else addToPoint(data, rows, row, last, count);
}

function addPoint(data: Table, rows: Table, row: number): void {
  for (const name of Object.keys(data)) {
    if (name === "step") data[name]!.push(rows["step"]![row]!);
    else if (name === "count") data[name]!.push(1);
    else if (name === "skipped") data[name]!.push(Number(rows["skipped"]?.[row] ?? 0));
    else data[name]!.push(rows[columnOf(name)]?.[row] ?? null);
  }
}

function addToPoint(data: Table, rows: Table, row: number, last: number, count: number): void {
  data["count"]![last] = count + 1;
  for (const name of Object.keys(data)) {
    const value = rows[columnOf(name)]?.[row];
    const before = data[name]![last];
    const statistic = name.slice(columnOf(name).length + 1);
    if (typeof value !== "number" || !STATISTICS.includes(statistic as "min")) continue;
    if (typeof before !== "number") data[name]![last] = value;
    else if (statistic === "min") data[name]![last] = Math.min(before, value);
    else if (statistic === "max") data[name]![last] = Math.max(before, value);
    else if (statistic === "last") data[name]![last] = value;
    else if (statistic === "mean") data[name]![last] = before + (value - before) / (count + 1);
  }
}

function isSpecial(rows: Table, row: number): boolean {
  return Boolean(rows["skipped"]?.[row]) || Object.values(rows).some((column) => typeof column[row] === "string");
}

/** Whether the last point has neither skipped steps nor values that are no numbers. */
function isPlain(data: Table, index: number): boolean {
  return index >= 0 && !data["skipped"]?.[index] && !Object.values(data).some((column) => typeof column[index] === "string");
}

function columnOf(name: string): string {
  return name.replace(/\.(min|max|first|last|mean)$/, "");
}

function withSkipped(skipped: Steps["skipped_steps"], event: StepsEvent, known: number): Steps["skipped_steps"] {
  const added = ((event.data["step"] ?? []) as number[]).filter((_, row) => row >= known && event.data["skipped"]?.[row]);
  if (!skipped || added.length === 0) return skipped;
  // The list has only the first ones; it stays complete if it was.
  const isComplete = skipped.total === skipped.steps.length;
  return { total: skipped.total + added.length, steps: isComplete ? [...skipped.steps, ...added] : skipped.steps };
}

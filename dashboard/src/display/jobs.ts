// The states of a job, the actions that they allow, and the time left.
import type { Job, ListedJob, State } from "../api/types.ts";
import { numberOf } from "./format.ts";

export const STATES: readonly State[] = [
  "queued", "starting", "running", "pausing", "paused", "stopping", "succeeded", "failed", "cancelled",
];
export const POLICIES = [
  "float32", "mixed_float16", "mixed_bfloat16", "mixed_float8", "float16", "bfloat16", "O0", "O1", "O2", "O3",
  "auto",
] as const;

export type Action = "cancel" | "pause" | "resume" | "retry";

const ACTIONS: Record<State, readonly Action[]> = {
  queued: ["pause", "cancel"],
  starting: ["pause", "cancel"],
  running: ["pause", "cancel"],
  pausing: ["cancel"],
  paused: ["resume", "cancel"],
  stopping: [],
  succeeded: [],
  failed: ["retry"],
  cancelled: ["retry"],
};

/** The actions that a state allows; none if only a newer server knows the state. */
export function allowedActions(state: string): readonly Action[] {
  return (ACTIONS as Partial<Record<string, readonly Action[]>>)[state] ?? [];
}

/** The actions that a job allows: no worker runs a tracked run, so it can only be asked to stop. */
export function actionsOf(job: ListedJob): readonly Action[] {
  const allowed = allowedActions(job.state);
  return isTracked(job) ? allowed.filter((action) => action === "cancel") : allowed;
}

/** What the page of a job offers besides the actions of its state. */
export type Offer = "notify" | "extend" | "resubmit" | "compare" | "precision" | "bisect" | "capacity" | "delete";
const OFFERS: readonly Offer[] = ["notify", "extend", "resubmit", "compare", "precision", "bisect", "capacity", "delete"];
const FIRST_OFFERS: Partial<Record<string, readonly Offer[]>> = {
  succeeded: ["extend", "compare"],
  failed: ["resubmit"],
  cancelled: ["resubmit"],
};

/** What a job offers: first what fits its state, then the rest, for a menu. A viewer can only compare. */
export function offersOf(job: Job, canEdit: boolean): { first: readonly Offer[]; more: readonly Offer[] } {
  if (!canEdit) return { first: ["compare"], more: [] };
  const ended = hasEnded(job.state);
  const isPossible: Record<Offer, boolean> = {
    notify: !ended, extend: canExtend(job), resubmit: !isTracked(job), compare: true,
    precision: !isTracked(job), bisect: !isTracked(job), capacity: !isTracked(job), delete: ended,
  };
  const possible = OFFERS.filter((offer) => isPossible[offer]);
  const fitting = FIRST_OFFERS[job.state] ?? ["notify"];
  return { first: possible.filter((offer) => fitting.includes(offer)), more: possible.filter((offer) => !fitting.includes(offer)) };
}

/** True for a run that a program elsewhere trains and reports. */
export function isTracked(job: ListedJob): boolean {
  return job.source === "tracked";
}

/** True for a final state. */
export function hasEnded(state: string): boolean {
  return state === "succeeded" || state === "failed" || state === "cancelled";
}

/** Whether the job can be continued for more epochs: it has succeeded, and saves checkpoints. */
export function canExtend(job: Job): boolean {
  return job.state === "succeeded" && "train" in job.spec && job.spec.train?.checkpoint_every_s !== null;
}

/** Seconds left, estimated from the median throughput; null if unknown. */
export function etaS(job: ListedJob): number | null {
  if (job.state !== "running" || !job.total_steps) return null;
  const rate = numberOf(job.summary?.median_examples_per_s ?? job.latest?.examples_per_s) ?? 0;
  const examples = job.examples_per_step;
  if (!(rate > 0) || !Number.isFinite(rate) || examples === null) return null;
  return ((job.total_steps - job.step) * examples) / rate;
}

/** What a job does, unless it trains as its state says; null: it is not known. */
export function activityText(job: ListedJob): string | null {
  return job.activity && job.activity !== "training" && job.activity !== job.state ? job.activity : null;
}

/** The policy in the spec, and the one that it trains with if that is another one. */
export function policyText(job: ListedJob): string {
  const chosen = job.summary?.policy ?? job.resolved_policy;
  return chosen == null || chosen === job.policy ? job.policy : `${job.policy} (${chosen})`;
}

/** The mode of the loss scale; that of a tracked run is not known. */
export function scaleMode(job: ListedJob): string {
  return job.loss_scale_mode ?? (isTracked(job) ? "–" : "none");
}

/** Names the fields that cannot be read; null if all can. */
export function unreadable(job: ListedJob): string | null {
  return job.unreadable?.length ? `Unreadable: ${job.unreadable.join(", ")}` : null;
}

/** The share of skipped steps so far. */
export function skippedShare(job: ListedJob): number | null {
  return job.summary?.skipped_share ?? null;
}

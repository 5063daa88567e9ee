// The request of a study about a job's spec, and its cost as text.
import type { Estimate, Job } from "../api/types.ts";
import { duration, integer } from "./format.ts";

/** The body of POST /studies. The labels stay those of the user: a study adds its own. */
export function studyRequest(job: Pick<Job, "name" | "spec">): { kind: "precision"; name: string; spec: Record<string, unknown> } {
  const { study, study_job, ...labels } = { ...(job.spec as { labels?: Record<string, string> }).labels };
  return { kind: "precision", name: job.name, spec: { ...job.spec, labels } };
}

export function estimateText(estimate: Estimate): string {
  const steps = estimate.steps === null ? "" : `, ${integer(estimate.steps)} steps`;
  const time = estimate.train_s === null ? "How long they train is not known." : `They train for about ${duration(estimate.train_s)}.`;
  return `${integer(estimate.jobs)} jobs (float32, ${estimate.policies.join(", ")})${steps}. ${time}`;
}

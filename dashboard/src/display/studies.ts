// The request of a study about a job's spec, and its cost as text.
import type { Estimate, FoldedStudy, Job } from "../api/types.ts";
import { duration, integer } from "./format.ts";

export type StudyKind = "precision" | "bisect" | "capacity";

interface StudyQuestion {
  /** The text of the button, and the name of the dialog. */
  readonly short: string;
  readonly question: string;
  readonly how: string;
}

export const STUDY_QUESTIONS: Readonly<Record<StudyKind, StudyQuestion>> = {
  precision: {
    short: "Which policy?",
    question: "Which policy is as accurate as float32?",
    how: "A study trains this spec in float32 and in the mixed policies with three seeds, and compares the results.",
  },
  bisect: {
    short: "Which layers?",
    question: "Which layers need float32?",
    how: "A study trains this spec for 200 steps with fewer and fewer layers in float32, beginning with those that lose most in 16 bit.",
  },
  capacity: {
    short: "How large a batch?",
    question: "How large may the batch be?",
    how: "A study trains this spec for 20 steps with larger and larger batches. Some jobs are expected to run out of memory; that is how the limit is found.",
  },
};

/** The body of POST /studies. The labels stay those of the user: a study adds its own. */
export function studyRequest(job: Pick<Job, "name" | "spec">, kind: StudyKind): Record<string, unknown> {
  const given = job.spec as { labels?: Record<string, string>; precision?: { policy?: string } };
  const { study, study_job, ...labels } = { ...given.labels };
  const request = { kind, name: job.name, spec: { ...job.spec, labels } };
  const policy = given.precision?.policy;
  const fails = policy !== undefined && policy !== "float32" && policy !== "auto" && policy !== "O0";
  return kind === "bisect" && fails ? { ...request, options: { policy } } : request;
}

export function estimateText(estimate: Estimate): string {
  const steps = estimate.steps === null ? "" : `, ${integer(estimate.steps)} steps`;
  const time = estimate.train_s === null ? "How long they train is not known." : `They train for about ${duration(estimate.train_s)}.`;
  const policies = [...new Set(["float32", ...estimate.policies])].join(", ");
  const more = estimate.more_jobs_possible ? "At least " : "";
  return `${more}${integer(estimate.jobs)} jobs (${policies})${steps}. ${time}`;
}

/** What a study has brought so far: its answer, or how many of its listed jobs are in each state. */
export function studyOutcome({ summary, states }: Pick<FoldedStudy, "summary" | "states">): string {
  return summary ?? Object.entries(states).map(([state, count]) => `${integer(count)} ${state}`).join(", ");
}

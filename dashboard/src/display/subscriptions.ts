// Texts of notifications and their messages.
import type { Delivery, Subscription } from "../api/types.ts";
import { duration } from "./format.ts";

/** What the form offers; without `types` the server chooses the ends of jobs and studies. */
export const TYPE_GROUPS: Readonly<Record<string, { label: string; types?: readonly string[] }>> = {
  ends: { label: "ends of jobs and studies" },
  failures: { label: "failures", types: ["job.failed", "study.failed", "worker.lost", "notification.disabled"] },
  jobs: { label: "jobs, their guard and diagnoses", types: ["job.*", "guard.*", "diagnosis.*", "notification.disabled"] },
  workers: { label: "workers", types: ["worker.*", "notification.disabled"] },
  all: { label: "everything", types: ["job.*", "guard.*", "diagnosis.*", "study.*", "worker.*", "notification.*"] },
};

/** Whether messages are sent, in one word. */
export function subscriptionState(subscription: Pick<Subscription, "disabled_at" | "completed_at" | "failing_since">): string {
  if (subscription.disabled_at !== null) return "disabled";
  if (subscription.completed_at !== null) return "completed";
  return subscription.failing_since !== null ? "failing" : "enabled";
}

/** The number of tries, and how long the last one took. */
export function triesText({ attempts, duration_s }: Pick<Delivery, "attempts" | "duration_s">): string {
  return duration_s === null ? String(attempts) : `${attempts}, the last took ${duration(duration_s)}`;
}

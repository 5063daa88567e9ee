// Changes several jobs with few requests.
import { sendJson } from "../../../api/request.ts";
import type { ChangedJobs } from "../../../api/types.ts";
import { jobCount } from "../selection.ts";

export type BulkAction = "cancel" | "delete" | "label";
export type LabelChanges = Readonly<Record<string, string | null>>;

/** The server takes at most this many ids in a request. */
const IDS_PER_REQUEST = 100;

type Send = (method: string, path: string, body?: unknown) => Promise<ChangedJobs>;

/**
 * Cancel, delete or label these jobs; returns the ids of those that were changed.
 *
 * A deletion of large jobs ends early and says that more match; it is sent again while it changes any.
 */
export async function changeJobs(
  action: BulkAction, ids: readonly string[], labels?: LabelChanges, send: Send = sendJson<ChangedJobs>,
): Promise<string[]> {
  const changed: string[] = [];
  for (let start = 0; start < ids.length; start += IDS_PER_REQUEST) {
    const path = `/jobs/${action}?id=${ids.slice(start, start + IDS_PER_REQUEST).join(",")}`;
    let response: ChangedJobs;
    do {
      response = await send("POST", path, labels && { labels });
      changed.push(...response.ids);
    } while (response.more && response.ids.length > 0);
  }
  return changed;
}

/** The labels in a text such as `team=vision, draft`; a string that says what is wrong if it has none. */
export function parseLabels(text: string): Record<string, string> | string {
  const parts = text.split(",").map((part) => part.trim()).filter((part) => part !== "");
  const labels: Record<string, string> = {};
  for (const part of parts) {
    const [key = "", value = ""] = part.split(/=(.*)/s);
    if (key === "" || key.length > 64 || value.length > 256) {
      return `Expected key=value, with a key of 1 to 64 and a value of up to 256 characters; received “${part}”.`;
    }
    labels[key] = value;
  }
  return labels;
}

/** What a person reads afterwards: how many jobs were changed, and why not all. */
export function changeText(action: BulkAction, changed: number, asked: number): string {
  const [done, why] = {
    cancel: ["being cancelled", "the others had ended"],
    delete: ["deleted", "the others have not ended, or an unfinished job needs them"],
    label: ["labelled", "the others had these labels already"],
  }[action];
  const verb = changed === 1 ? "is" : "are";
  return changed === asked ? `${jobCount(changed)} ${verb} ${done}.` : `${changed} of ${jobCount(asked)} ${verb} ${done}; ${why}.`;
}

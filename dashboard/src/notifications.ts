// Short messages about actions; they disappear by themselves.
import { toApiError } from "./api/connection.ts";
import { observable } from "./hooks.ts";

export interface Notification {
  id: number;
  kind: "done" | "failed";
  text: string;
}

const SHOWN_MS = 7000;
let count = 0;

export const notifications = observable<readonly Notification[]>([]);

export function notify(kind: Notification["kind"], text: string): void {
  const notice = { id: ++count, kind, text };
  notifications.set([...notifications.get().slice(-2), notice]);
  setTimeout(() => dismiss(notice.id), SHOWN_MS);
}

export function dismiss(id: number): void {
  notifications.set(notifications.get().filter((notice) => notice.id !== id));
}

/** Run an action and notify about its result, or with an empty text only of an error; true if it succeeded. */
export async function runAndNotify(done: string, work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
  } catch (error) {
    notify("failed", toApiError(error).message);
    return false;
  }
  if (done) notify("done", done);
  return true;
}

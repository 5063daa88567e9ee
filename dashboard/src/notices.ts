// Short words about what was just done; they go by themselves.
import { failed } from "./api/connection.ts";
import { cell } from "./cell.ts";

export interface Notice {
  id: number;
  kind: "done" | "failed";
  text: string;
}

const SHOWN_MS = 7000;
let count = 0;

export const notices = cell<readonly Notice[]>([]);

export function tell(kind: Notice["kind"], text: string): void {
  const notice = { id: ++count, kind, text };
  notices.set([...notices.get().slice(-2), notice]);
  setTimeout(() => dismiss(notice.id), SHOWN_MS);
}

export function dismiss(id: number): void {
  notices.set(notices.get().filter((notice) => notice.id !== id));
}

/** Do something and tell how it went; true where it went well. */
export async function attempt(done: string, work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
  } catch (error) {
    tell("failed", failed(error).message);
    return false;
  }
  tell("done", done);
  return true;
}

// What all requests have in common: is the server there, and are we still signed in.
import { cell } from "../cell.ts";
import { ApiError } from "./request.ts";

export interface Outage {
  message: string;
  since: number;
}

/** Null while the server answers. */
export const outage = cell<Outage | null>(null);
/** Counts up whenever everything is to be asked again at once. */
export const again = cell(0);
/** Called when the session turns out to have ended. */
export const sessionEnded = cell(0);

export function answered(): void {
  outage.set(null);
}

/** Take note of a failure; what is no ApiError is a mistake of ours and goes on. */
export function failed(error: unknown): ApiError {
  if (!(error instanceof ApiError)) throw error;
  if (error.status === 401) sessionEnded.set(sessionEnded.get() + 1);
  if (error.isOutage) {
    outage.set(outage.get() ?? { message: error.message, since: Date.now() });
  } else {
    answered();
  }
  return error;
}

export function tryAgain(): void {
  again.set(again.get() + 1);
}

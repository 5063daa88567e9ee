// The state of the connection: is the server reachable, is the session valid.
import { observable } from "../hooks.ts";
import { ApiError } from "./request.ts";

export interface Outage {
  message: string;
  since: number;
}

/** Null while the server is reachable. */
export const outage = observable<Outage | null>(null);
/** Counts the requests to retry everything at once. */
export const retryCount = observable(0);
/** Counts the responses that say that the session has ended. */
export const sessionEndCount = observable(0);

export function markReachable(): void {
  outage.set(null);
}

/** Records a failed request. Throws whatever is not an ApiError: that is a bug. */
export function toApiError(error: unknown): ApiError {
  if (!(error instanceof ApiError)) throw error;
  if (error.status === 401) sessionEndCount.set(sessionEndCount.get() + 1);
  if (error.isOutage) {
    outage.set(outage.get() ?? { message: error.message, since: Date.now() });
  } else {
    markReachable();
  }
  return error;
}

export function retryAll(): void {
  retryCount.set(retryCount.get() + 1);
}

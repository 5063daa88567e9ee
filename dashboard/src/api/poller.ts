// Polls one path. It sends the last ETag, so that an unchanged response costs a 304.
import { markReachable, toApiError } from "./connection.ts";
import { ApiError, fetchApi, type ApiResponse, type RequestOptions } from "./request.ts";

const MAX_BACKOFF_MS = 15_000;

export type Fetcher = (path: string, options: RequestOptions) => Promise<ApiResponse<unknown> | null>;

export interface PollHandlers {
  data(body: unknown): void;
  error(error: ApiError | null): void;
}

/** The delay before the next request: exponential backoff, or what the server demands. */
export function retryDelayMs(intervalMs: number, failures: number, retryAfterS = 0): number {
  const backoff = Math.min(MAX_BACKOFF_MS, intervalMs * 2 ** Math.min(failures, 8));
  return Math.max(failures > 0 ? backoff : intervalMs, retryAfterS * 1000);
}

export class Poller {
  readonly path: string;
  intervalMs: number;
  private readonly handlers: PollHandlers;
  private readonly ask: Fetcher;
  private etag: string | null = null;
  private failures = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private controller: AbortController | null = null;
  private again = false;

  constructor(path: string, intervalMs: number, handlers: PollHandlers, fetcher: Fetcher = fetchApi) {
    this.path = path;
    this.intervalMs = intervalMs;
    this.handlers = handlers;
    this.ask = fetcher;
  }

  /** Poll now and from then on; a request that is under way is aborted. */
  async pollNow(): Promise<void> {
    this.stop();
    this.again = false;
    const controller = new AbortController();
    this.controller = controller;
    let retryAfterS = 0;
    try {
      const response = await this.ask(this.path, { etag: this.etag, signal: controller.signal });
      if (controller.signal.aborted) return;
      this.handleResponse(response);
    } catch (error) {
      if (controller.signal.aborted) return;
      const problem = toApiError(error);
      this.failures += 1;
      retryAfterS = problem.retryAfterS;
      this.handlers.error(problem);
    }
    this.controller = null;
    const intervalMs = this.again && this.failures === 0 ? 0 : this.intervalMs;
    this.timer = setTimeout(() => void this.pollNow(), retryDelayMs(intervalMs, this.failures, retryAfterS));
  }

  /** Poll now, or once the request that is under way has ended: it may not have what is new. */
  pollSoon(): void {
    if (this.controller === null) void this.pollNow();
    else this.again = true;
  }

  stop(): void {
    clearTimeout(this.timer);
    this.controller?.abort();
    this.controller = null;
  }

  private handleResponse(response: ApiResponse<unknown> | null): void {
    markReachable();
    if (this.failures > 0 || response !== null) this.handlers.error(null);
    this.failures = 0;
    if (response === null) return;
    this.etag = response.etag;
    this.handlers.data(response.body);
  }
}

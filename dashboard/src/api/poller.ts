// Ask for one thing again and again, as long as somebody looks; an unchanged one costs a 304.
import { answered, failed } from "./connection.ts";
import { ApiError, ask, type Answer, type Question } from "./request.ts";

const SLOWEST_MS = 15_000;

export type Ask = (path: string, question: Question) => Promise<Answer<unknown> | null>;

export interface Told {
  data(body: unknown): void;
  error(error: ApiError | null): void;
}

/** How long to wait after so many failures in a row. */
export function delayOf(everyMs: number, failures: number, retryAfterS = 0): number {
  const backoff = Math.min(SLOWEST_MS, everyMs * 2 ** Math.min(failures, 8));
  return Math.max(failures > 0 ? backoff : everyMs, retryAfterS * 1000);
}

export class Poller {
  readonly path: string;
  everyMs: number;
  private readonly told: Told;
  private readonly ask: Ask;
  private etag: string | null = null;
  private failures = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private asking: AbortController | null = null;

  constructor(path: string, everyMs: number, told: Told, asker: Ask = ask) {
    this.path = path;
    this.everyMs = everyMs;
    this.told = told;
    this.ask = asker;
  }

  /** Ask now, and from then on; what was asked before is no longer waited for. */
  async now(): Promise<void> {
    this.stop();
    const asking = new AbortController();
    this.asking = asking;
    let retryAfterS = 0;
    try {
      const answer = await this.ask(this.path, { etag: this.etag, signal: asking.signal });
      if (asking.signal.aborted) return;
      this.take(answer);
    } catch (error) {
      if (asking.signal.aborted) return;
      const problem = failed(error);
      this.failures += 1;
      retryAfterS = problem.retryAfterS;
      this.told.error(problem);
    }
    this.asking = null;
    this.timer = setTimeout(() => void this.now(), delayOf(this.everyMs, this.failures, retryAfterS));
  }

  stop(): void {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.asking = null;
  }

  private take(answer: Answer<unknown> | null): void {
    answered();
    if (this.failures > 0 || answer !== null) this.told.error(null);
    this.failures = 0;
    if (answer === null) return;
    this.etag = answer.etag;
    this.told.data(answer.body);
  }
}

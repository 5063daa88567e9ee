// The event stream of one job, from its present state on, as Server-Sent Events. The browser sends
// the session cookie, and reconnects by itself with the id of the last entry.
import { API_ROOT, getJson } from "./request.ts";
import { toApiError } from "./connection.ts";
import type { Job, StepsEvent } from "./types.ts";

/** The entries of the stream. Log text is not read from it: a page of the log is. */
export type StreamKind = "steps" | "events" | "logs";

export interface StreamHandlers {
  steps(event: StepsEvent): void;
  /** An event, a new state, or log text was stored. */
  entry(): void;
  /** Whether the stream is open: without it the page polls. */
  open(isOpen: boolean): void;
}

/** What this module uses of an EventSource. */
export interface Source {
  readonly readyState: number;
  addEventListener(name: string, listener: (event: { data?: string }) => void): void;
  close(): void;
}

const CLOSED = 2;
/** How long the page polls after a stream was refused. */
const RETRY_MS = 30_000;

export class JobStream {
  private readonly path: string;
  private readonly query: string;
  private readonly handlers: StreamHandlers;
  private readonly connect: (url: string) => Source;
  private readonly read: (path: string) => Promise<Job>;
  private source: Source | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private opening = 0;

  /** `columns` of the steps, separated by commas; null for all. */
  constructor(
    jobId: string, kinds: readonly StreamKind[], columns: string | null, handlers: StreamHandlers,
    connect: (url: string) => Source = (url) => new EventSource(url) as Source,
    read: (path: string) => Promise<Job> = getJson,
  ) {
    this.path = `/jobs/${encodeURIComponent(jobId)}`;
    this.query = [...kinds.map((kind) => `kinds=${kind}`), ...(columns ? [`columns=${columns}`] : [])].join("&");
    this.handlers = handlers;
    this.connect = connect;
    this.read = read;
  }

  /** Follow the job from its present state on, unless it has ended. */
  async open(): Promise<void> {
    this.close();
    const opening = this.opening;
    try {
      const { seq } = await this.read(this.path);
      if (opening === this.opening) this.follow(seq);
    } catch (error) {
      toApiError(error);
      if (opening === this.opening) this.retryLater();
    }
  }

  close(): void {
    this.opening += 1;
    clearTimeout(this.timer);
    if (this.source === null) return;
    this.source.close();
    this.source = null;
    this.handlers.open(false);
  }

  private follow(seq: number): void {
    const source = this.connect(`${API_ROOT}${this.path}/stream?after=${seq}&${this.query}`);
    this.source = source;
    source.addEventListener("open", () => this.handlers.open(true));
    source.addEventListener("steps", ({ data }) => this.handlers.steps(JSON.parse(data!) as StepsEvent));
    for (const name of ["event", "state", "log"]) source.addEventListener(name, () => this.handlers.entry());
    source.addEventListener("end", () => {
      this.handlers.entry();
      this.close();
    });
    source.addEventListener("error", () => {
      // Otherwise the browser reconnects; until it has, the page polls.
      if (source.readyState === CLOSED) this.retryLater();
      this.handlers.open(false);
    });
  }

  private retryLater(): void {
    this.close();
    this.timer = setTimeout(() => void this.open(), RETRY_MS);
  }
}

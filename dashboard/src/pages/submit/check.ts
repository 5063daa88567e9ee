// What the server thinks of a spec, asked a moment after the last change.
import { useEffect, useState } from "preact/hooks";
import { failed } from "../../api/connection.ts";
import { ApiError, ask } from "../../api/request.ts";
import type { JsonObject, ProblemDetail, Validation } from "../../api/types.ts";

const PAUSE_MS = 350;

export interface Verdict {
  /** True while the newest document is being looked at. */
  isBusy: boolean;
  validation: Validation | null;
  problems: readonly ProblemDetail[];
  /** Why nothing is known, as where the server is away. */
  failure: string | null;
}

const UNKNOWN: Verdict = { isBusy: true, validation: null, problems: [], failure: null };

export function useVerdict(document: JsonObject | null): Verdict {
  const [verdict, setVerdict] = useState<Verdict>(UNKNOWN);
  const text = JSON.stringify(document);
  useEffect(() => {
    if (document === null) return;
    setVerdict((before) => ({ ...before, isBusy: true }));
    const asking = new AbortController();
    const timer = setTimeout(() => {
      void verdictOn(document, asking.signal).then((next) => next && setVerdict(next));
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      asking.abort();
    };
  }, [text]);
  return verdict;
}

async function verdictOn(body: JsonObject, signal: AbortSignal): Promise<Verdict | null> {
  const nothing = { ...UNKNOWN, isBusy: false };
  try {
    const answer = await ask<Validation>("/jobs/validate", { method: "POST", body, signal });
    return { ...nothing, validation: answer!.body };
  } catch (error) {
    if (signal.aborted) return null;
    if (error instanceof ApiError && error.errors.length > 0) return { ...nothing, problems: error.errors };
    return { ...nothing, failure: failed(error).message };
  }
}

// Validates the spec on the server shortly after the last change.
import { useEffect, useState } from "preact/hooks";
import { toApiError } from "../../api/connection.ts";
import { ApiError, fetchApi } from "../../api/request.ts";
import type { JsonObject, ProblemDetail, Validation } from "../../api/types.ts";

const DEBOUNCE_MS = 350;

export interface ValidationState {
  /** True while the newest document is being validated. */
  isBusy: boolean;
  validation: Validation | null;
  problems: readonly ProblemDetail[];
  /** Why there is no result, such as an unreachable server. */
  failure: string | null;
}

const UNKNOWN: ValidationState = { isBusy: true, validation: null, problems: [], failure: null };

export function useValidation(document: JsonObject | null): ValidationState {
  const [validationState, setVerdict] = useState<ValidationState>(UNKNOWN);
  const text = JSON.stringify(document);
  useEffect(() => {
    if (document === null) return;
    setVerdict((before) => ({ ...before, isBusy: true }));
    const asking = new AbortController();
    const timer = setTimeout(() => {
      void fetchValidation(document, asking.signal).then((next) => next && setVerdict(next));
    }, DEBOUNCE_MS);
    return () => {
      clearTimeout(timer);
      asking.abort();
    };
  }, [text]);
  return validationState;
}

async function fetchValidation(body: JsonObject, signal: AbortSignal): Promise<ValidationState | null> {
  const nothing = { ...UNKNOWN, isBusy: false };
  try {
    const response = await fetchApi<Validation>("/jobs/validate", { method: "POST", body, signal });
    return { ...nothing, validation: response!.body };
  } catch (error) {
    if (signal.aborted) return null;
    if (error instanceof ApiError && error.errors.length > 0) return { ...nothing, problems: error.errors };
    return { ...nothing, failure: toApiError(error).message };
  }
}

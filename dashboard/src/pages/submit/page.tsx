// The page to submit a job: a form built from the spec's schema beside the same spec as YAML. Both
// can be edited; the server validates while the user types.
import { useEffect, useState } from "preact/hooks";
import type { Route } from "../../router.ts";
import { toApiError } from "../../api/connection.ts";
import { ApiError, getJson } from "../../api/request.ts";
import type { Job, JsonObject } from "../../api/types.ts";
import { LoadError, LoadingState } from "../../components/load-state.tsx";
import { parseDescription, type OpenApiDocument, type SpecDescription } from "./description.ts";
import { Editor } from "./editor.tsx";

interface Ready {
  description: SpecDescription;
  start: JsonObject;
  origin: Job | null;
}

export function SubmitPage({ route }: { route: Route }) {
  const from = route.query.get("from");
  return <Form key={from ?? ""} from={from} />;
}

function Form({ from }: { from: string | null }) {
  const [ready, setReady] = useState<Ready | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const load = async () => {
    try {
      setReady(await loadForm(from));
      setError(null);
    } catch (problem) {
      setError(toApiError(problem));
    }
  };
  useEffect(() => void load(), []);
  useEffect(() => {
    if (!error?.isOutage) return;
    const timer = setTimeout(() => void load(), 3000);
    return () => clearTimeout(timer);
  }, [error]);
  if (ready) return <Editor {...ready} />;
  return error ? <LoadError what="form" error={error} /> : <LoadingState what="form" />;
}

/** Loads the schema and the spec to start from: that of an older job, or an example. */
async function loadForm(from: string | null): Promise<Ready> {
  const [description, origin] = await Promise.all([
    getJson<OpenApiDocument>("/openapi.json").then(parseDescription),
    from === null ? null : getJson<Job>(`/jobs/${encodeURIComponent(from)}`),
  ]);
  const example = Object.values(description.examples).at(-1)?.value ?? {};
  return { description, start: origin ? (origin.spec as unknown as JsonObject) : example, origin };
}

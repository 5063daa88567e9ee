// The editor of a spec: form and YAML, two views of one document.
import { useState } from "preact/hooks";
import { currentPage, goFrom, routeHref } from "../../router.ts";
import { toApiError } from "../../api/connection.ts";
import { sendJson } from "../../api/request.ts";
import type { Job, Json, JsonObject } from "../../api/types.ts";
import { notify } from "../../notifications.ts";
import { dump, parse } from "../../display/yaml.ts";
import { useValidation } from "./validation.ts";
import { FormContext } from "./controls.tsx";
import type { SpecDescription } from "./description.ts";
import { sortKeys, setAt, type Path } from "./schema.ts";
import { SpecForm } from "./spec-form.tsx";
import { ValidationResult } from "./validation-result.tsx";

interface Props {
  description: SpecDescription;
  start: JsonObject;
  origin: Job | null;
}

export function Editor({ description, start, origin }: Props) {
  const [document, setDocument] = useState(start);
  const [text, setText] = useState(() => dump(start));
  const [yamlError, setYamlError] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const validationState = useValidation(document);

  const replace = (next: JsonObject) => {
    setDocument(next);
    setText(dump(next));
    setYamlError(null);
  };
  const write = (next: string) => {
    setText(next);
    try {
      setDocument(parse(next));
      setYamlError(null);
    } catch (error) {
      setYamlError((error as Error).message);
    }
  };
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    const page = currentPage();
    try {
      const job = await sendJson<Job>("POST", "/jobs", document);
      notify("done", `${job.name} is queued.`);
      goFrom(page, routeHref(["jobs", job.id]));
    } catch (error) {
      notify("failed", toApiError(error).message);
      setBusy(false);
    }
  };

  const fieldErrors = new Map(validationState.problems.map((one) => [one.pointer, one.detail]));
  const names = Object.keys(description.schemas["JobSpec"]?.properties ?? {});
  const change = (path: Path, value: Json | undefined) => replace(sortKeys(setAt(document, path, value), names));
  const maySubmit = !isBusy && yamlError === null && !validationState.isBusy && validationState.validation !== null;
  return (
    <form class="stack" aria-label="Submit a job" onSubmit={submit}>
      <div class="row spread">
        <h1>{origin ? `Resubmit ${origin.name}` : "Submit a job"}</h1>
        <div class="row">
          {!origin && <Examples description={description} onValue={replace} />}
          <button type="submit" class="button primary" disabled={!maySubmit}>Submit</button>
        </div>
      </div>
      <div class="submit">
        <FormContext.Provider value={{ schemas: description.schemas, document, change, fieldErrors }}>
          <SpecForm isFrozen={yamlError !== null} />
        </FormContext.Provider>
        <div class="stack beside">
          <ValidationResult validationState={validationState} yamlError={yamlError} />
          <label class="field">
            <span>YAML</span>
            <textarea
              class="yaml"
              spellcheck={false}
              value={text}
              aria-invalid={yamlError !== null}
              onInput={(event) => write(event.currentTarget.value)}
            />
          </label>
        </div>
      </div>
    </form>
  );
}

function Examples({ description, onValue }: { description: SpecDescription; onValue: (value: JsonObject) => void }) {
  return (
    <select
      class="quiet"
      aria-label="Start from an example"
      value=""
      onChange={(event) => {
        const example = description.examples[event.currentTarget.value];
        if (example) onValue(example.value);
      }}
    >
      <option value="">Start from…</option>
      {Object.entries(description.examples).map(([name, example]) => <option key={name} value={name}>{example.summary}</option>)}
    </select>
  );
}

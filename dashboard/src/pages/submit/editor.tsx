// The form and the YAML, two views of one document.
import { useState } from "preact/hooks";
import { fragmentOf, go } from "../../address.ts";
import { failed } from "../../api/connection.ts";
import { send } from "../../api/request.ts";
import type { Job, Json, JsonObject } from "../../api/types.ts";
import { tell } from "../../notices.ts";
import { dump, parse } from "../../words/yaml.ts";
import { useVerdict } from "./check.ts";
import { FormContext } from "./context.ts";
import type { Description } from "./page.tsx";
import { inOrder, withValue, type Path } from "./schema.ts";
import { SpecForm } from "./spec-form.tsx";
import { VerdictView } from "./verdict.tsx";

interface Props {
  description: Description;
  start: JsonObject;
  origin: Job | null;
}

export function Editor({ description, start, origin }: Props) {
  const [document, setDocument] = useState(start);
  const [text, setText] = useState(() => dump(start));
  const [slip, setSlip] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const verdict = useVerdict(document);

  const replace = (next: JsonObject) => {
    setDocument(next);
    setText(dump(next));
    setSlip(null);
  };
  const write = (next: string) => {
    setText(next);
    try {
      setDocument(parse(next));
      setSlip(null);
    } catch (error) {
      setSlip((error as Error).message);
    }
  };
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      const job = await send<Job>("POST", "/jobs", document);
      tell("done", `${job.name} is queued.`);
      go(fragmentOf(["jobs", job.id]));
    } catch (error) {
      tell("failed", failed(error).message);
      setBusy(false);
    }
  };

  const mistakes = new Map(verdict.problems.map((one) => [one.pointer, one.detail]));
  const names = Object.keys(description.schemas["JobSpec"]?.properties ?? {});
  const change = (path: Path, value: Json | undefined) => replace(inOrder(withValue(document, path, value), names));
  const maySubmit = !isBusy && slip === null && !verdict.isBusy && verdict.validation !== null;
  return (
    <form class="stack" aria-label="Submit a job" onSubmit={submit}>
      <div class="row spread">
        <h1>{origin ? `Run ${origin.name} again` : "Submit a job"}</h1>
        <div class="row">
          {!origin && <Examples description={description} onValue={replace} />}
          <button type="submit" class="button primary" disabled={!maySubmit}>Submit</button>
        </div>
      </div>
      <div class="submit">
        <FormContext.Provider value={{ schemas: description.schemas, document, change, mistakes }}>
          <SpecForm isFrozen={slip !== null} />
        </FormContext.Provider>
        <div class="stack beside">
          <VerdictView verdict={verdict} slip={slip} />
          <label class="field">
            <span>YAML</span>
            <textarea
              class="yaml"
              spellcheck={false}
              value={text}
              aria-invalid={slip !== null}
              onInput={(event) => write(event.currentTarget.value)}
            />
          </label>
        </div>
      </div>
    </form>
  );
}

function Examples({ description, onValue }: { description: Description; onValue: (value: JsonObject) => void }) {
  return (
    <select
      class="quiet"
      aria-label="Begin with an example"
      value=""
      onChange={(event) => {
        const example = description.examples[event.currentTarget.value];
        if (example) onValue(example.value);
      }}
    >
      <option value="">Begin with …</option>
      {Object.entries(description.examples).map(([name, example]) => <option key={name} value={name}>{example.summary}</option>)}
    </select>
  );
}

// The parts of a spec, each as fields that its schema describes.
import { useContext } from "preact/hooks";
import { FormContext } from "./context.ts";
import { Field, Properties, Union } from "./fields.tsx";
import { formOf, resolved, wordsOf, type Schema } from "./schema.ts";

const FIRST = ["name", "labels"];
const OPEN = new Set(["model", "data", "precision", "loss_scale", "optimizer", "train"]);

export function SpecForm({ isFrozen }: { isFrozen: boolean }) {
  const { schemas } = useContext(FormContext);
  const spec = schemas["JobSpec"];
  if (!spec?.properties) return null;
  const parts = Object.entries(spec.properties).filter(([name]) => !FIRST.includes(name));
  return (
    <fieldset class="plain-set stack" disabled={isFrozen} aria-label="Spec">
      <div class="card fields">
        {FIRST.map((name) => <Field key={name} schema={spec.properties![name] ?? {}} path={[name]} />)}
      </div>
      {parts.map(([name, part]) => (
        <Part key={name} name={name} schema={resolved(part, schemas)} isRequired={spec.required?.includes(name) ?? false} />
      ))}
    </fieldset>
  );
}

function Part({ name, schema, isRequired }: { name: string; schema: Schema; isRequired: boolean }) {
  const { schemas } = useContext(FormContext);
  const form = formOf(schema, schemas);
  return (
    <details class="part" open={OPEN.has(name)}>
      <summary>{wordsOf(name)}</summary>
      <div class="part-body">
        {form === "union" && <Union schema={schema} path={[name]} isRequired={isRequired} />}
        {form === "object" && <Properties schema={schema} path={[name]} />}
        {form === "map" && <p class="muted">One for each network of a model that has several: set them in the YAML.</p>}
      </div>
    </details>
  );
}

// The form: one section for each part of the spec, built from its JSON schema.
import { useContext } from "preact/hooks";
import { FormContext } from "./controls.tsx";
import { Field, Properties, Union } from "./fields.tsx";
import { fieldKind, resolveRef, fieldLabel, type Schema } from "./schema.ts";

const LEADING_FIELDS = ["name", "labels"];
const INITIALLY_OPEN = new Set(["model", "data", "precision", "loss_scale", "optimizer", "train"]);

export function SpecForm({ isFrozen }: { isFrozen: boolean }) {
  const { schemas } = useContext(FormContext);
  const spec = schemas["JobSpec"];
  if (!spec?.properties) return null;
  const parts = Object.entries(spec.properties).filter(([name]) => !LEADING_FIELDS.includes(name));
  return (
    <fieldset class="plain-set stack" disabled={isFrozen} aria-label="Spec">
      <div class="card fields">
        {LEADING_FIELDS.map((name) => <Field key={name} schema={spec.properties![name] ?? {}} path={[name]} />)}
      </div>
      {parts.map(([name, part]) => (
        <Part key={name} name={name} schema={resolveRef(part, schemas)} isRequired={spec.required?.includes(name) ?? false} />
      ))}
    </fieldset>
  );
}

function Part({ name, schema, isRequired }: { name: string; schema: Schema; isRequired: boolean }) {
  const { schemas } = useContext(FormContext);
  const form = fieldKind(schema, schemas);
  return (
    <details class="part" open={INITIALLY_OPEN.has(name)}>
      <summary>{fieldLabel(name)}</summary>
      <div class="part-body">
        {form === "union" && <Union schema={schema} path={[name]} isRequired={isRequired} />}
        {form === "object" && <Properties schema={schema} path={[name]} />}
        {form === "map" && <p class="muted">One entry per network, for models with several networks. Set it in the YAML.</p>}
      </div>
    </details>
  );
}

// The examples of a step that stand out: as a picture, a text or a row, with their place.
import { placeText, type Answer, type ExampleRow, type InputView } from "../../../display/explanations.ts";
import { number } from "../../../display/format.ts";

export function Examples({ answer }: { answer: Answer }) {
  const { shown, unusual, total } = answer.examples;
  if (shown.length === 0 || (unusual === 0 && answer.attribution !== "data")) return null;
  return (
    <section>
      <h3>{unusual > 0 ? `Examples that stand out: ${unusual} of ${total}` : "Examples with the largest loss"}</h3>
      <div class="pictures examples">
        {shown.map((one) => <Example key={one.position} example={one} />)}
      </div>
    </section>
  );
}

function Example({ example }: { example: ExampleRow }) {
  const place = placeText(example.place);
  const target = Object.values(example.targets)[0];
  return (
    <figure>
      {Object.entries(example.inputs).map(([name, view]) => <Input key={name} name={name} view={view} label={`training example ${example.example}`} />)}
      <figcaption>
        training example {example.example}, at {example.position} of the batch
        {place && <>, <strong>{place}</strong></>}
        {example.loss !== null && <>, loss {number(example.loss)}</>}
        {example.effect && <>, alone makes the gradient norm <strong>{number(example.effect.grad_norm)}</strong></>}
        {example.nonfinite > 0 && <strong class="problem">, {example.nonfinite} not finite</strong>}
        {target?.values && <>, target {valuesText(target)}</>}
      </figcaption>
    </figure>
  );
}

function Input({ name, view, label }: { name: string; view: InputView; label: string }) {
  if (view.kind === "picture") return <img src={`data:image/png;base64,${view.png}`} alt={`Picture of ${label}`} />;
  if (view.kind === "text") return <pre class="data">{view.text}</pre>;
  return <p>{name && <strong>{name}: </strong>}{valuesText(view)}</p>;
}

function valuesText(view: InputView): string {
  const values = view.values ?? [];
  const shown = values.map((one) => (values.length > 1 ? `${one.name} = ${number(one.value)}` : number(one.value)));
  return shown.join(", ") + (view.left_out ? ` and ${view.left_out} more` : "");
}

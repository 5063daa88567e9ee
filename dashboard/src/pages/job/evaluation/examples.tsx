// Single examples with their inputs, targets and predictions.
import { topText, valueText, type OutputReport, type ShownExample, type ShownOutput, type ShownValue } from "../../../display/evaluation-report.ts";
import { integer, number, percent } from "../../../display/format.ts";

interface Props {
  title: string;
  examples: ShownExample[];
  outputs: Record<string, OutputReport>;
}

export function Examples({ title, examples, outputs }: Props) {
  if (examples.length === 0) return null;
  return (
    <section>
      <h2>{title}</h2>
      <ul class="examples">
        {examples.map((example) => (
          <li key={example.row} class="example">
            <p class="muted">Row {integer(example.row)} · loss {number(example.loss)}</p>
            {example.inputs.map((input) => <Input key={input.name} input={input} isOnly={example.inputs.length === 1} />)}
            {Object.entries(example.outputs).map(([name, output]) => (
              <Output key={name} name={Object.keys(example.outputs).length > 1 ? name : ""} output={output} report={outputs[name]} />
            ))}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Input({ input, isOnly }: { input: ShownExample["inputs"][number]; isOnly: boolean }) {
  if (input.picture) return <Picture value={input} name={input.name} />;
  return <p class="value">{!isOnly && <span class="muted">{input.name} </span>}{valueText(input)}</p>;
}

function Output({ name, output, report }: { name: string; output: ShownOutput; report: OutputReport | undefined }) {
  const isWrong = output.target?.class !== undefined && output.target.class !== output.prediction?.class;
  return (
    <div>
      {name && <p class="muted">{name}</p>}
      {output.prediction && (
        <dl>
          {output.target && <Side name="target" value={output.target} report={report} />}
          <Side name="predicted" value={output.prediction} report={report} className={isWrong ? "bad" : ""} />
        </dl>
      )}
      {output.top && <p class="muted">{topText(output, report)}</p>}
      {output.wrong_share !== undefined && <p class="muted">{percent(output.wrong_share)} wrong</p>}
    </div>
  );
}

function Side({ name, value, report, className = "" }: { name: string; value: ShownValue; report: OutputReport | undefined; className?: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class={className}>{value.picture ? <Picture value={value} name={name} /> : valueText(value, report)}</dd>
    </div>
  );
}

function Picture({ value, name }: { value: ShownValue; name: string }) {
  const { png, low, high } = value.picture!;
  const title = low === undefined || high === undefined ? name : `${name}: black is ${number(low)}, white is ${number(high)}`;
  return <img class="example-picture" src={png} alt={name} title={title} />;
}

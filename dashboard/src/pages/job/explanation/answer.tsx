// The answer to what a step was due to, laid out for reading: sentence, advice, evidence.
import type { ComponentChildren } from "preact";
import { attributionText, countsText, finiteText, isBad, kindText, type Answer, type Measured } from "../../../display/explanations.ts";
import { integer, lossScale, number } from "../../../display/format.ts";
import type { Numeric } from "../../../api/types.ts";
import { Examples } from "./examples.tsx";
import { FoldedTable } from "./folded-table.tsx";

export function ExplanationAnswer({ answer }: { answer: Answer }) {
  const values = answer.values as Record<string, Numeric>;
  return (
    <div class="stack explanation">
      <div class={`callout ${answer.attribution === "normal" ? "good" : "warning"}`}>
        <p><strong>{kindText(answer.kind)}</strong> at step {integer(answer.step)}, due to <strong>{attributionText(answer.attribution)}</strong></p>
        <p>{answer.sentence}</p>
        {answer.advice && <p><strong>What to do:</strong> {answer.advice}</p>}
      </div>
      <dl class="facts">
        <Fact name="Loss">{number(values["loss"])}</Fact>
        <Fact name="Gradient norm">{number(values["grad_norm"])}</Fact>
        <Fact name="Loss scale">{lossScale(values["loss_scale"])}</Fact>
        <Fact name="Learning rate">{number(values["learning_rate"])}</Fact>
        <Fact name="Place">epoch {answer.batch.epoch}, batch {answer.batch.batch}</Fact>
        <Fact name="Run twice">{answer.repeat.equal_bits ? "every bit equal" : "results differ"}</Fact>
      </dl>
      {!answer.repeat.equal_bits && (
        <p class="problem">Different: {answer.repeat.differences.map((one) => `${one.name} (${one.elements} elements)`).join(", ")}</p>
      )}
      <FoldedTable
        title="Layers, in the order of the forward pass"
        heads={["Layer", "Computes in", "Output", "Gradient"]}
        rows={answer.layers}
        leftOut={answer.layers_left_out}
        cells={(row) => [
          <span title={row.kind}>{row.is_first && <strong class="problem">first not finite: </strong>}{row.layer}</span>,
          row.dtype,
          <Bad is={isBad(row.forward)}>{countsText(row.forward)}</Bad>,
          <Bad is={isBad(row.backward)}>{countsText(row.backward)}</Bad>,
        ]}
      />
      <FoldedTable
        title="Gradients of the variables"
        heads={["Variable", "Elements", "Gradient", "Largest weight"]}
        rows={answer.variables}
        leftOut={answer.variables_left_out}
        cells={(row) => [row.variable, integer(row.size), <Bad is={isBad(row)}>{countsText(row)}</Bad>, number(row.largest_value)]}
      />
      <FoldedTable
        title="What was tried"
        heads={["Computed in", "Loss scale", "Came out"]}
        rows={answer.tried}
        leftOut={0}
        cells={(row) => [
          <span>{row.dtype}{row.is_own && " (as in the run)"}</span>,
          row.dtype === "float32" ? "none" : lossScale(row.loss_scale),
          <Bad is={!(row.finite_loss && row.finite_gradients)}>{finiteText(row)}</Bad>,
        ]}
      />
      <FoldedTable
        title="Comparison"
        heads={["Batch and weights", "Loss", "Gradient norm"]}
        rows={compared(answer)}
        leftOut={0}
        cells={([name, measured]) => [name, number(measured.loss), number(measured.grad_norm)]}
      />
      <Examples answer={answer} />
    </div>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

function Bad({ is, children }: { is: boolean; children: ComponentChildren }) {
  return <span class={is ? "problem" : ""}>{children}</span>;
}

function compared({ comparison }: Answer): [string, Measured][] {
  if (comparison === null) return [];
  const rows: [string, Measured | null | undefined][] = [
    ["this batch, weights before the step", comparison.own],
    [`${comparison.other_batches} other batches (median), same weights`, comparison.others],
    ["the first step of the run", comparison.at_start],
    ["this batch, untrained weights", comparison.untrained], // of version 0.5
  ];
  return rows.filter((row): row is [string, Measured] => row[1] != null);
}

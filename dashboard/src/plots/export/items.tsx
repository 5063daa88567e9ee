// The items of a plot's menu that save it as a file.
import { notify } from "../../notifications.ts";
import { plotCsv } from "./csv.ts";
import { fileName, savePng, saveText } from "./save.ts";
import { plotSvg, type DrawnPlot } from "./svg.ts";
import type { ChartProps } from "../chart-props.ts";

export function ExportItems({ props, drawn }: { props: ChartProps; drawn: () => DrawnPlot | null }) {
  const name = fileName(props.exportName, props.title);
  const saveSvg = (save: (svg: string) => void) => {
    const plot = drawn();
    if (plot) save(plotSvg(plot));
  };
  const saveAsPng = (svg: string) =>
    void savePng(`${name}.png`, svg).catch((error: Error) => notify("failed", `The plot was not saved: ${error.message} Save it as SVG instead.`));
  return (
    <div class="row" role="group" aria-label="Save the plot">
      <span>Save as</span>
      <button type="button" class="button small" onClick={() => saveSvg(saveAsPng)}>PNG</button>
      <button type="button" class="button small" onClick={() => saveSvg((svg) => saveText(`${name}.svg`, svg, "image/svg+xml"))}>SVG</button>
      <button type="button" class="button small" onClick={() => saveText(`${name}.csv`, plotCsv(props.xTitle, props.x, props.curves, props.range), "text/csv")}>CSV</button>
    </div>
  );
}

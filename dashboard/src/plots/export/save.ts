// Saves text and pictures as files of the browser.

/** Twice as many pixels as on the screen, so that a printed picture is sharp. */
const PIXEL_RATIO = 2;

export function saveText(name: string, text: string, type: string): void {
  save(name, new Blob([text], { type }));
}

/** An SVG picture as PNG. Rejects if the browser cannot draw it. */
export async function savePng(name: string, svg: string): Promise<void> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`; // the only kind of address that the page's policy allows
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width * PIXEL_RATIO, image.height * PIXEL_RATIO];
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
  if (blob === null) throw new Error("The browser could not draw this picture.");
  save(name, blob);
}

/** A name for a file, of letters, digits and hyphens. */
export function fileName(...words: readonly string[]): string {
  return words.join("-").toLowerCase().replace(/[^\p{L}\p{N}._=]+/gu, "-").replace(/^-+|-+$/g, "") || "plot";
}

function save(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

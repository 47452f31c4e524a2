/** Whether `npm run test:long` runs this, which takes its time and tries what no run before has tried. */
export const LONG: boolean = process.env['SLUICE_LONG'] === '1'

/** How much of a suite runs: so much at each change, so much in `npm run test:long`. */
export function sized(quick: number, long: number): number {
  return LONG ? long : quick
}

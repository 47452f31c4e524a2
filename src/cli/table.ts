import type { Paint } from './demo/paint.ts'
import { printable } from './words.ts'

/** A column of a table: what stands above it, and whether its cells are numbers. */
export interface Column {
  readonly head: string
  readonly right?: boolean
}

const WIDEST_CELL = 48

/** Formats rows under heads. Each column is as wide as its widest cell; a cell that is too long is cut. */
export function tableOf(columns: readonly Column[], rows: readonly (readonly string[])[], paint: Paint): string[] {
  const cells = rows.map((row) => row.map((cell) => cut(printable(cell))))
  const widths = columns.map(({ head }, i) => Math.max(head.length, ...cells.map((row) => (row[i] ?? '').length)))
  const line = (row: readonly string[]): string =>
    columns
      .map(({ right }, i) => (right ? (row[i] ?? '').padStart(widths[i] ?? 0) : (row[i] ?? '').padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd()
  return [paint('dim', line(columns.map(({ head }) => head))), ...cells.map(line)]
}

function cut(cell: string): string {
  return cell.length <= WIDEST_CELL ? cell : `${cell.slice(0, WIDEST_CELL - 1)}…`
}

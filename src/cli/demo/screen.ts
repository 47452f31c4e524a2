import { type Clock, systemClock } from '../../base/clock.ts'
import type { BoardView } from './board.ts'
import { paintFor, progressLine, TABLE_COLUMNS, tableLines } from './paint.ts'

/** Shows how the demo goes, until it is closed. */
export interface Screen {
  /** Prints a line that stays above the live table. */
  say(line: string): void
  close(): void
}

/** Returns the screen's content at every refresh; null before the first. */
export type ScreenSource = () => {
  readonly view: BoardView
  readonly elapsedMs: number
  readonly refused: number
} | null

/** The screen's output stream and content. */
export interface ScreenOptions {
  readonly out: NodeJS.WriteStream
  readonly colours: boolean
  readonly source: ScreenSource
  readonly clock?: Clock
}

const TABLE_EVERY_MS = 200
const LINE_EVERY_MS = 2000
const HIDE_CURSOR = '\u001B[?25l'
const SHOW_CURSOR = '\u001B[?25h'
const CLEAR_BELOW = '\u001B[0J'

/** Opens a live table if the terminal supports it, otherwise a plain line every 2 s. */
export function openScreen(options: ScreenOptions): Screen {
  const { out } = options
  // A wrapped line would count as one, and the table would climb up the screen.
  const live = out.isTTY && out.columns >= TABLE_COLUMNS && process.env['TERM'] !== 'dumb'
  return live ? new LiveScreen(options) : new PlainScreen(options)
}

class PlainScreen implements Screen {
  readonly #options: ScreenOptions
  readonly #stop: () => void

  constructor(options: ScreenOptions) {
    this.#options = options
    this.#stop = every(options.clock ?? systemClock, LINE_EVERY_MS, () => {
      const now = options.source()
      if (now) this.say(progressLine(now.view, now.elapsedMs, now.refused))
    })
  }

  say(line: string): void {
    this.#options.out.write(`${line}\n`)
  }

  close(): void {
    this.#stop()
  }
}

class LiveScreen implements Screen {
  readonly #options: ScreenOptions
  readonly #stop: () => void
  #drawn = 0

  constructor(options: ScreenOptions) {
    this.#options = options
    options.out.write(HIDE_CURSOR)
    this.#stop = every(options.clock ?? systemClock, TABLE_EVERY_MS, () => this.#draw())
  }

  say(line: string): void {
    this.#options.out.write(`${this.#back()}${line}\n`)
    this.#drawn = 0
    this.#draw()
  }

  close(): void {
    this.#stop()
    this.#draw()
    this.#options.out.write(SHOW_CURSOR)
  }

  #draw(): void {
    const { out, colours, source } = this.#options
    const now = source()
    if (!now) return
    const lines = tableLines(now.view, now.elapsedMs, now.refused, paintFor(colours), out.rows)
    // One write, from the top of the last picture, so that nothing flickers.
    out.write(`${this.#back()}${lines.join('\n')}\n`)
    this.#drawn = lines.length
  }

  #back(): string {
    return this.#drawn === 0 ? '' : `\u001B[${this.#drawn}A\r${CLEAR_BELOW}`
  }
}

function every(clock: Clock, ms: number, work: () => void): () => void {
  let timer = clock.setTimer(function again() {
    timer = clock.setTimer(again, ms)
    work()
  }, ms)
  return () => timer.cancel()
}

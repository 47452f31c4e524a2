import { createInterface } from 'node:readline/promises'
import { SluiceError } from '../base/errors.ts'
import { groupDigits } from '../policy/limits/policy-words.ts'

/**
 * Asks a person before a change. Without a terminal only `--yes` confirms.
 * @param answer.counts the command has `--dry-run`
 * @throws {SluiceError} `cli.usage` if there is no terminal, or the person says no
 */
export async function confirm(
  question: string,
  { yes, counts }: { readonly yes?: true; readonly counts?: true },
): Promise<void> {
  if (yes) return
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    const look = counts ? ', or --dry-run to see how many it would be' : ''
    throw new SluiceError('cli.usage', `${question} Add --yes to do it${look}.`)
  }
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const answer = await lines.question(`${question} [y/N] `).finally(() => lines.close())
  if (!/^y(es)?$/i.test(answer.trim())) throw new SluiceError('cli.usage', 'Nothing was changed.')
}

const BAR = 30

/** Draws a progress bar on a terminal's standard error; elsewhere nothing. */
export function progressBar(): { readonly draw: (done: number, all: number) => void; readonly end: () => void } {
  const out = process.stderr
  if (!out.isTTY || process.env['TERM'] === 'dumb') return { draw: () => undefined, end: () => undefined }
  return {
    draw(done, all) {
      const share = all === 0 ? 1 : Math.min(1, done / all)
      const full = Math.round(share * BAR)
      const bar = `${'█'.repeat(full)}${'░'.repeat(BAR - full)}`
      out.write(`\r${bar} ${groupDigits(done)} of ${groupDigits(all)}\u001B[0K`)
    },
    end: () => void out.write('\r\u001B[0K'),
  }
}

import { SluiceError } from '../../base/errors.ts'
import { quote } from '../../base/options.ts'
import { isName } from '../../base/text.ts'

/** Of a step, and of a change. */
export const LONGEST_NAME = 200
const COUNTED = /#\d+$/

/**
 * The names of the steps that one entry of a body asks for. A name that is asked for again, one after the other, is
 * counted: `send`, `send#2`. At the same time it is refused, since results could not be told apart.
 */
export class StepNames {
  readonly #counts = new Map<string, number>()
  readonly #open = new Set<string>()

  /** The full name of a step. @throws {SluiceError} `option.invalid`, `step.name.repeated` */
  begin(name: unknown): string {
    if (!isName(name, LONGEST_NAME) || name.startsWith('~') || COUNTED.test(name))
      throw new SluiceError(
        'option.invalid',
        `The name of a step is invalid: ${quote(name)}. Expected 1 to ${LONGEST_NAME} characters, without ~ at its beginning and # with a number at its end.`,
      )
    if (this.#open.has(name))
      throw new SluiceError(
        'step.name.repeated',
        `The step ${JSON.stringify(name)} was asked for while another of its name is open. Give each a name of its own, such as \`${name} \${id}\`.`,
      )
    this.#open.add(name)
    const count = (this.#counts.get(name) ?? 0) + 1
    this.#counts.set(name, count)
    return count === 1 ? name : `${name}#${count}`
  }

  /** The step was answered. */
  end(name: string): void {
    this.#open.delete(name)
  }
}

/** Whether a full name is that of a second or later call. */
export function isRepeated(name: string): boolean {
  return COUNTED.test(name)
}

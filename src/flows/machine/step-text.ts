/**
 * The step of a machine's job as text: its name; from the second lap on `#` and the lap; and `*` if it was waited for,
 * so that its run reads what it waited for. A lap ends when the machine goes back, or stays, in the order of its steps.
 * So no two visits of a flow have the same name in its history.
 */
export interface StepText {
  readonly step: string
  /** From 1. */
  readonly lap: number
  readonly isWoken: boolean
}

const TEXT = /^([^#*]*)(?:#(\d+))?(\*)?$/

/** Reads the step of a machine's job. */
export function readStepText(text: string): StepText {
  const [, step = text, lap, woken] = TEXT.exec(text) ?? []
  return { step, lap: lap === undefined ? 1 : Number(lap), isWoken: woken !== undefined }
}

/** The name of a visit in the machine's history. */
export function visitName({ step, lap }: Pick<StepText, 'step' | 'lap'>): string {
  return lap === 1 ? step : `${step}#${lap}`
}

/** The visit that follows another, in a machine with these steps. */
export function nextVisit(steps: readonly string[], from: StepText, step: string): { lap: number; isNew: boolean } {
  const isNew = steps.indexOf(step) <= steps.indexOf(from.step)
  return { lap: isNew ? from.lap + 1 : from.lap, isNew }
}

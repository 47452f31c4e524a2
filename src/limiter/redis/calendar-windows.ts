import { calendarStartUs, calendarWindow } from '../../policy/rules/calendar.ts'
import type { Rule, WindowAlignment } from '../../policy/rules/rule.ts'

/** A call carries so many windows before the present one, and so many after it. */
const BEFORE = 2
const AFTER = 8

type Calendar = Extract<WindowAlignment, { align: 'calendar' }>

/** A calendar as the script knows it. */
export function calendarName({ unit, timezone }: Calendar): string {
  return `${unit} ${timezone}`
}

/** The windows of calendars that a call carries for the script on Redis, which knows no time zones. */
export class CalendarWindows {
  /** By the name of a calendar: the number of its present window, and the windows around it. */
  readonly #known = new Map<string, { readonly index: number; readonly starts: readonly number[] }>()

  /** The windows of all calendars of these rules around an instant, as JSON; '': they have none. */
  around(rules: readonly (Rule | null | undefined)[], nowUs: number): string {
    let all: Record<string, readonly number[]> | null = null
    for (const rule of rules) {
      if (rule?.kind !== 'fixed' || rule.window.align !== 'calendar') continue
      all ??= {}
      all[calendarName(rule.window)] ??= this.#starts(rule.window, nowUs)
    }
    return all === null ? '' : JSON.stringify(all)
  }

  #starts(calendar: Calendar, nowUs: number): readonly number[] {
    const { unit, timezone } = calendar
    const name = calendarName(calendar)
    const { index } = calendarWindow(unit, timezone, nowUs)
    const known = this.#known.get(name)
    if (known?.index === index) return known.starts
    const starts = Array.from({ length: BEFORE + 1 + AFTER }, (_, i) =>
      calendarStartUs(unit, timezone, index - BEFORE + i),
    )
    this.#known.set(name, { index, starts })
    return starts
  }
}

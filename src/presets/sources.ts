import type { PresetSource } from './preset.ts'

const READ = '2026-11-22'

/** A page that was read for these presets. @param dated the day that the page shows */
export function page(url: string, dated?: string): PresetSource {
  return { url, read: READ, ...(dated !== undefined && { dated }) }
}

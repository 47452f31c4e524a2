/** Settings of a server: JSON text by name. */
export interface Settings {
  /** Stores a setting; null deletes it. */
  keepSetting(name: string, value: string | null): Promise<void>
  /** Settings whose names begin with the prefix. */
  settings(prefix: string): Promise<readonly { readonly name: string; readonly value: string }[]>
}

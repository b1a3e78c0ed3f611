// SPDX-License-Identifier: Apache-2.0 OR MIT
export function pack(json: string, page?: string): string;

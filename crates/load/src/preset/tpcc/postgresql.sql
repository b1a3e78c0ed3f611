-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- What is in braces is a random value: transactions.rs. A pick is a warehouse times 1,000,000 and an item of its stock.

create or replace procedure tpcc_new_order(inout v_o integer default null, inout v_total numeric default 0)
language plpgsql as $$
declare
  v_w integer := {warehouse};
  v_d integer := {district};
  v_c integer := {customer};
  v_lines integer := {lines};
  v_unused boolean := {percent} <= 1;
  v_picks bigint[];
  v_local boolean;
  v_w_tax numeric;
  v_d_tax numeric;
  v_discount numeric;
  v_supply integer;
  v_item integer;
  v_quantity integer;
  v_price numeric;
  v_dist text;
begin
  -- In their order, so that two orders never wait for each other's stock.
  select array_agg(pick order by pick), min(pick) / 1000000 = v_w and max(pick) / 1000000 = v_w into v_picks, v_local
    from (select cast({supply} as bigint) * 1000000 + {item} as pick from generate_series(1, v_lines)) as picks;
  select w_tax into strict v_w_tax from warehouse where w_id = v_w;
  select c_discount into strict v_discount from customer where c_w_id = v_w and c_d_id = v_d and c_id = v_c;
  update district set d_next_o_id = d_next_o_id + 1 where d_w_id = v_w and d_id = v_d
    returning d_next_o_id - 1, d_tax into strict v_o, v_d_tax;
  insert into orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    values (v_o, v_d, v_w, v_c, localtimestamp, v_lines, cast(v_local as integer));
  insert into new_order (no_o_id, no_d_id, no_w_id) values (v_o, v_d, v_w);
  for v_line in 1 .. v_lines loop
    v_supply := v_picks[v_line] / 1000000;
    v_item := v_picks[v_line] % 1000000;
    if v_unused and v_line = v_lines then
      v_item := 0;
    end if;
    select i_price into v_price from item where i_id = v_item;
    if not found then
      rollback;
      v_total := null;
      return;
    end if;
    v_quantity := {quantity};
    update stock
      set s_quantity = s_quantity - v_quantity + case when s_quantity >= v_quantity + 10 then 0 else 91 end,
        s_ytd = s_ytd + v_quantity, s_order_cnt = s_order_cnt + 1,
        s_remote_cnt = s_remote_cnt + case when v_supply = v_w then 0 else 1 end
      where s_w_id = v_supply and s_i_id = v_item
      returning (array[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09,
        s_dist_10])[v_d] into strict v_dist;
    insert into order_line
      (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info)
      values (v_o, v_d, v_w, v_line, v_item, v_supply, v_quantity, v_quantity * v_price, v_dist);
    v_total := v_total + v_quantity * v_price;
  end loop;
  v_total := round(v_total * (1 - v_discount) * (1 + v_w_tax + v_d_tax), 2);
end $$;

create or replace procedure tpcc_payment(inout v_c integer default null, inout v_balance numeric default null)
language plpgsql as $$
declare
  v_w integer := {warehouse};
  v_d integer := {district};
  v_home boolean := {percent} <= 85;
  v_c_w integer := case when v_home then v_w else {other} end;
  v_c_d integer := case when v_home then v_d else {district} end;
  v_number integer := {name number};
  v_amount numeric := {cents} / 100.0;
  v_names text;
  v_last text;
  v_count integer;
begin
  update warehouse set w_ytd = w_ytd + v_amount where w_id = v_w returning w_name into strict v_names;
  update district set d_ytd = d_ytd + v_amount where d_w_id = v_w and d_id = v_d
    returning v_names || '    ' || d_name into strict v_names;
  v_c := {customer};
  if {percent} <= 60 then
    v_last := {name};
    select count(*) into v_count from customer where c_w_id = v_c_w and c_d_id = v_c_d and c_last = v_last;
    select c_id into strict v_c from customer where c_w_id = v_c_w and c_d_id = v_c_d and c_last = v_last
      order by c_first limit 1 offset (v_count - 1) / 2;
  end if;
  update customer
    set c_balance = c_balance - v_amount, c_ytd_payment = c_ytd_payment + v_amount, c_payment_cnt = c_payment_cnt + 1,
      c_data = case when c_credit = 'BC' then
        left(concat(c_id, ' ', c_d_id, ' ', c_w_id, ' ', v_d, ' ', v_w, ' ', v_amount, ' ', c_data), 500) else c_data end
    where c_w_id = v_c_w and c_d_id = v_c_d and c_id = v_c returning c_balance into strict v_balance;
  insert into history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    values (v_c, v_c_d, v_c_w, v_d, v_w, localtimestamp, v_amount, v_names);
end $$;

create or replace procedure tpcc_order_status(inout v_o integer default null, inout v_lines bigint default null,
  inout v_total numeric default null)
language plpgsql as $$
declare
  v_w integer := {warehouse};
  v_d integer := {district};
  v_c integer := {customer};
  v_number integer := {name number};
  v_last text;
  v_count integer;
begin
  if {percent} <= 60 then
    v_last := {name};
    select count(*) into v_count from customer where c_w_id = v_w and c_d_id = v_d and c_last = v_last;
    select c_id into strict v_c from customer where c_w_id = v_w and c_d_id = v_d and c_last = v_last
      order by c_first limit 1 offset (v_count - 1) / 2;
  end if;
  select o_id into strict v_o from orders where o_w_id = v_w and o_d_id = v_d and o_c_id = v_c order by o_id desc limit 1;
  select count(*), sum(ol_amount) into v_lines, v_total
    from order_line where ol_w_id = v_w and ol_d_id = v_d and ol_o_id = v_o;
end $$;

create or replace procedure tpcc_delivery(inout v_delivered integer default 0)
language plpgsql as $$
declare
  v_w integer := {warehouse};
  v_carrier integer := {carrier};
  v_o integer;
  v_c integer;
  v_total numeric;
begin
  for v_d in 1 .. 10 loop
    -- The oldest order is gone when another delivery had its lock.
    loop
      select no_o_id into v_o from new_order where no_w_id = v_w and no_d_id = v_d order by no_o_id limit 1 for update;
      exit when found or not exists (select from new_order where no_w_id = v_w and no_d_id = v_d);
    end loop;
    continue when v_o is null;
    delete from new_order where no_w_id = v_w and no_d_id = v_d and no_o_id = v_o;
    update orders set o_carrier_id = v_carrier where o_w_id = v_w and o_d_id = v_d and o_id = v_o
      returning o_c_id into strict v_c;
    update order_line set ol_delivery_d = localtimestamp where ol_w_id = v_w and ol_d_id = v_d and ol_o_id = v_o;
    select sum(ol_amount) into v_total from order_line where ol_w_id = v_w and ol_d_id = v_d and ol_o_id = v_o;
    update customer set c_balance = c_balance + v_total, c_delivery_cnt = c_delivery_cnt + 1
      where c_w_id = v_w and c_d_id = v_d and c_id = v_c;
    v_delivered := v_delivered + 1;
  end loop;
end $$;

create or replace procedure tpcc_stock_level(inout v_low bigint default null)
language plpgsql as $$
declare
  v_w integer := {warehouse};
  v_d integer := {district};
  v_least integer := {least};
  v_next integer;
begin
  select d_next_o_id into strict v_next from district where d_w_id = v_w and d_id = v_d;
  select count(distinct s_i_id) into v_low from order_line join stock on s_w_id = v_w and s_i_id = ol_i_id
    where ol_w_id = v_w and ol_d_id = v_d and ol_o_id >= v_next - 20 and ol_o_id < v_next and s_quantity < v_least;
end $$

-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- What is in braces is a random value: transactions.rs. A pick is a warehouse times 1,000,000 and an item of its stock.
-- READ COMMITTED is PostgreSQL's level too, and locks no gaps between rows.

create or replace procedure tpcc_new_order()
body: begin
  declare v_w integer default {warehouse};
  declare v_d integer default {district};
  declare v_c integer default {customer};
  declare v_lines integer default {lines};
  declare v_unused boolean default {percent} <= 1;
  declare v_picks text;
  declare v_local boolean;
  declare v_pick bigint;
  declare v_w_tax, v_d_tax, v_discount decimal(4,4);
  declare v_o, v_supply, v_item, v_quantity integer;
  declare v_price decimal(5,2);
  declare v_total decimal(12,2) default 0;
  declare v_line integer default 0;
  declare v_dist varchar(24);
  declare continue handler for not found begin end;
  -- In their order, so that two orders never wait for each other's stock.
  select group_concat(pick order by pick), min(pick) div 1000000 = v_w and max(pick) div 1000000 = v_w into v_picks, v_local
    from (select {supply} * 1000000 + {item} as pick from (select 1 union all select 2 union all select 3 union all select 4
      union all select 5 union all select 6 union all select 7 union all select 8 union all select 9 union all select 10
      union all select 11 union all select 12 union all select 13 union all select 14 union all select 15) as fifteen
      limit v_lines) as picks;
  set transaction isolation level read committed;
  start transaction;
  select w_tax into v_w_tax from warehouse where w_id = v_w;
  select c_discount into v_discount from customer where c_w_id = v_w and c_d_id = v_d and c_id = v_c;
  select d_next_o_id, d_tax into v_o, v_d_tax from district where d_w_id = v_w and d_id = v_d for update;
  update district set d_next_o_id = v_o + 1 where d_w_id = v_w and d_id = v_d;
  insert into orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    values (v_o, v_d, v_w, v_c, now(), v_lines, v_local);
  insert into new_order (no_o_id, no_d_id, no_w_id) values (v_o, v_d, v_w);
  while v_line < v_lines do
    set v_line = v_line + 1;
    set v_pick = substring_index(substring_index(v_picks, ',', v_line), ',', -1);
    set v_supply = v_pick div 1000000;
    set v_item = if(v_unused and v_line = v_lines, 0, v_pick mod 1000000);
    set v_price = null;
    select i_price into v_price from item where i_id = v_item;
    if v_price is null then
      rollback;
      select null, null;
      leave body;
    end if;
    set v_quantity = {quantity};
    select elt(v_d, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09,
      s_dist_10) into v_dist from stock where s_w_id = v_supply and s_i_id = v_item for update;
    update stock
      set s_quantity = s_quantity - v_quantity + case when s_quantity >= v_quantity + 10 then 0 else 91 end,
        s_ytd = s_ytd + v_quantity, s_order_cnt = s_order_cnt + 1,
        s_remote_cnt = s_remote_cnt + case when v_supply = v_w then 0 else 1 end
      where s_w_id = v_supply and s_i_id = v_item;
    insert into order_line
      (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info)
      values (v_o, v_d, v_w, v_line, v_item, v_supply, v_quantity, v_quantity * v_price, v_dist);
    set v_total = v_total + v_quantity * v_price;
  end while;
  commit;
  select v_o, round(v_total * (1 - v_discount) * (1 + v_w_tax + v_d_tax), 2);
end;

create or replace procedure tpcc_payment()
begin
  declare v_w integer default {warehouse};
  declare v_d integer default {district};
  declare v_home boolean default {percent} <= 85;
  declare v_c_w integer default if(v_home, v_w, {other});
  declare v_c_d integer default if(v_home, v_d, {district});
  declare v_c integer default {customer};
  declare v_number integer default {name number};
  declare v_amount decimal(6,2) default {cents} / 100;
  declare v_balance decimal(12,2);
  declare v_names varchar(24);
  declare v_last varchar(16) character set utf8mb4 collate utf8mb4_bin;
  declare v_count integer;
  set transaction isolation level read committed;
  start transaction;
  update warehouse set w_ytd = w_ytd + v_amount where w_id = v_w;
  update district set d_ytd = d_ytd + v_amount where d_w_id = v_w and d_id = v_d;
  select concat(w_name, '    ', d_name) into v_names
    from warehouse join district on d_w_id = w_id and d_id = v_d where w_id = v_w;
  if {percent} <= 60 then
    set v_last = {name};
    select count(*) into v_count from customer where c_w_id = v_c_w and c_d_id = v_c_d and c_last = v_last;
    set v_count = (v_count - 1) div 2;
    select c_id into v_c from customer where c_w_id = v_c_w and c_d_id = v_c_d and c_last = v_last
      order by c_first limit v_count, 1;
  end if;
  update customer
    set c_balance = c_balance - v_amount, c_ytd_payment = c_ytd_payment + v_amount, c_payment_cnt = c_payment_cnt + 1,
      c_data = case when c_credit = 'BC' then
        left(concat(c_id, ' ', c_d_id, ' ', c_w_id, ' ', v_d, ' ', v_w, ' ', v_amount, ' ', c_data), 500) else c_data end
    where c_w_id = v_c_w and c_d_id = v_c_d and c_id = v_c;
  select c_balance into v_balance from customer where c_w_id = v_c_w and c_d_id = v_c_d and c_id = v_c;
  insert into history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    values (v_c, v_c_d, v_c_w, v_d, v_w, now(), v_amount, v_names);
  commit;
  select v_c, v_balance;
end;

create or replace procedure tpcc_order_status()
begin
  declare v_w integer default {warehouse};
  declare v_d integer default {district};
  declare v_c integer default {customer};
  declare v_number integer default {name number};
  declare v_last varchar(16) character set utf8mb4 collate utf8mb4_bin;
  declare v_count, v_o integer;
  set transaction isolation level read committed;
  start transaction;
  if {percent} <= 60 then
    set v_last = {name};
    select count(*) into v_count from customer where c_w_id = v_w and c_d_id = v_d and c_last = v_last;
    set v_count = (v_count - 1) div 2;
    select c_id into v_c from customer where c_w_id = v_w and c_d_id = v_d and c_last = v_last
      order by c_first limit v_count, 1;
  end if;
  select o_id into v_o from orders where o_w_id = v_w and o_d_id = v_d and o_c_id = v_c order by o_id desc limit 1;
  select v_o, count(*), sum(ol_amount) from order_line where ol_w_id = v_w and ol_d_id = v_d and ol_o_id = v_o;
  commit;
end;

create or replace procedure tpcc_delivery()
begin
  declare v_w integer default {warehouse};
  declare v_carrier integer default {carrier};
  declare v_d, v_delivered integer default 0;
  declare v_o, v_c integer;
  declare v_total decimal(12,2);
  declare continue handler for not found begin end;
  set transaction isolation level read committed;
  start transaction;
  while v_d < 10 do
    set v_d = v_d + 1;
    set v_o = null;
    select no_o_id into v_o from new_order where no_w_id = v_w and no_d_id = v_d order by no_o_id limit 1 for update;
    if v_o is not null then
      delete from new_order where no_w_id = v_w and no_d_id = v_d and no_o_id = v_o;
      update orders set o_carrier_id = v_carrier where o_w_id = v_w and o_d_id = v_d and o_id = v_o;
      select o_c_id into v_c from orders where o_w_id = v_w and o_d_id = v_d and o_id = v_o;
      update order_line set ol_delivery_d = now() where ol_w_id = v_w and ol_d_id = v_d and ol_o_id = v_o;
      select sum(ol_amount) into v_total from order_line where ol_w_id = v_w and ol_d_id = v_d and ol_o_id = v_o;
      update customer set c_balance = c_balance + v_total, c_delivery_cnt = c_delivery_cnt + 1
        where c_w_id = v_w and c_d_id = v_d and c_id = v_c;
      set v_delivered = v_delivered + 1;
    end if;
  end while;
  commit;
  select v_delivered;
end;

create or replace procedure tpcc_stock_level()
begin
  declare v_w integer default {warehouse};
  declare v_d integer default {district};
  declare v_least integer default {least};
  declare v_next integer;
  set transaction isolation level read committed;
  start transaction;
  select d_next_o_id into v_next from district where d_w_id = v_w and d_id = v_d;
  select count(distinct s_i_id) from order_line join stock on s_w_id = v_w and s_i_id = ol_i_id
    where ol_w_id = v_w and ol_d_id = v_d and ol_o_id >= v_next - 20 and ol_o_id < v_next and s_quantity < v_least;
  commit;
end
